// The verbs, one file each.
#pragma once

#include "tools/program.h"

namespace comera::tools {

OptionTable pretrain_table();
int run_pretrain(const OptionValues& values);
OptionTable finetune_table();
int run_finetune(const OptionValues& values);
OptionTable tensorize_table();
int run_tensorize(const OptionValues& values);
OptionTable evaluate_table();
int run_evaluate(const OptionValues& values);
OptionTable predict_table();
int run_predict(const OptionValues& values);
OptionTable export_table();
int run_export(const OptionValues& values);
OptionTable extract_table();
int run_extract(const OptionValues& values);
OptionTable bench_table();
int run_bench(const OptionValues& values);
OptionTable doctor_table();
int run_doctor(const OptionValues& values);
OptionTable inspect_table();
int run_inspect(const OptionValues& values);
OptionTable tokenizer_train_table();
int run_tokenizer_train(const OptionValues& values);
OptionTable tokenizer_encode_table();
int run_tokenizer_encode(const OptionValues& values);
OptionTable tokenizer_decode_table();
int run_tokenizer_decode(const OptionValues& values);
OptionTable version_table();
int run_version(const OptionValues& values);
OptionTable manual_table();
int run_manual(const OptionValues& values);
OptionTable completion_table();
int run_completion(const OptionValues& values);

}  // namespace comera::tools
