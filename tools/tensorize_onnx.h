// `comera tensorize model.onnx`: the weights of the graph go out as a folder, are tensorized as any other, and come back as chains.
#pragma once

#include "lib/core/options.h"

namespace comera::tools {

// `tensorize` is the verb on a model folder. The exit code.
int tensorize_onnx(const OptionValues& values, int (*tensorize)(const OptionValues&));

}  // namespace comera::tools
