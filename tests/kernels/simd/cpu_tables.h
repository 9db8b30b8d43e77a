// Calls of all CPU tables that this machine supports, in f32.
#pragma once

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/backend.h"
#include "kernels/host/cpu_backend.h"

namespace comera::kernels::test {

inline std::vector<const Backend*> cpu_tables() {
  std::vector<const Backend*> tables;
  for (const char* isa : cpu_isas) {
    const char* error = nullptr;
    if (const Backend* table = cpu_backend(isa, &error)) tables.push_back(table);
  }
  if (tables.empty()) WARN("SKIPPED: this machine runs none of the CPU tables");
  return tables;
}

template <class Args>
Status call_cpu(const Op<Args>& op, const Args& args, void* stream = nullptr) {
  Context context;
  context.stream = stream;
  std::vector<double> workspace;
  context.workspace_bytes = op.workspace_bytes ? op.workspace_bytes(context, args) : 0;
  workspace.resize(context.workspace_bytes / sizeof(double) + 1);
  context.workspace = workspace.data();
  return op.run(context, args);
}

}  // namespace comera::kernels::test
