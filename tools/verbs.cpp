#include "tools/verbs.h"

namespace comera::tools {

std::span<const Verb> verbs() {
  static constexpr Verb all[] = {
      {"tensorize", tensorize_table, run_tensorize, "tensorizing"},
      {"pretrain", pretrain_table, run_pretrain, "pretraining"},
      {"finetune", finetune_table, run_finetune, "finetuning"},
      {"evaluate", evaluate_table, run_evaluate, "evaluating"},
      {"predict", predict_table, run_predict, ""},
      {"export", export_table, run_export, "exporting"},
      {"extract", extract_table, run_extract, "extracting"},
      {"inspect", inspect_table, run_inspect, "inspecting"},
      {"bench", bench_table, run_bench, "timing"},
      {"doctor", doctor_table, run_doctor, "timing"},
      {"tokenizer train", tokenizer_train_table, run_tokenizer_train, "training a tokenizer"},
      {"tokenizer encode", tokenizer_encode_table, run_tokenizer_encode, ""},
      {"tokenizer decode", tokenizer_decode_table, run_tokenizer_decode, ""},
      {"version", version_table, run_version},
      {"manual", manual_table, run_manual},
      {"completion", completion_table, run_completion},
  };
  return all;
}

}  // namespace comera::tools
