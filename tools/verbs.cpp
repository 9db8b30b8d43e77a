#include "tools/verbs.h"

namespace comera::tools {

std::span<const Verb> verbs() {
  static constexpr Verb all[] = {
      {"tensorize", tensorize_table, run_tensorize},
      {"pretrain", pretrain_table, run_pretrain},
      {"finetune", finetune_table, run_finetune},
      {"evaluate", evaluate_table, run_evaluate},
      {"predict", predict_table, run_predict},
      {"export", export_table, run_export},
      {"inspect", inspect_table, run_inspect},
      {"bench", bench_table, run_bench},
      {"tokenizer train", tokenizer_train_table, run_tokenizer_train},
      {"tokenizer encode", tokenizer_encode_table, run_tokenizer_encode},
      {"tokenizer decode", tokenizer_decode_table, run_tokenizer_decode},
      {"version", version_table, run_version},
      {"manual", manual_table, run_manual},
      {"completion", completion_table, run_completion},
  };
  return all;
}

}  // namespace comera::tools
