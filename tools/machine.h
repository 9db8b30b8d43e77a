// Options that select the device, threads and instruction set, and the machine that they open.
#pragma once

#include <memory>

#include "kernels/host/thread_pool.h"
#include "lib/core/options/options.h"
#include "lib/plan/walk.h"

namespace comera::tools {

std::vector<Option> machine_options();    // --device, --threads, --isa, --launches
std::vector<Option> precision_options();  // --dtype

struct OpenMachine {
  std::unique_ptr<kernels::ThreadPool> threads;                     // of the host
  std::unique_ptr<void, void (*)(void*)> stream{nullptr, nullptr};  // of a device
  plan::Machine machine;
  bool only_plans = false;  // it cannot compute with these options
};
// Throws an InputError with the missing part and the remedy. `dtype`: one of plan::precisions(). `isa` replaces --isa
// if it is not empty.
OpenMachine open_machine(const OptionValues& values, const std::string& dtype = "fp32", const std::string& isa = "");
// A machine that only makes plans (--dry-run). Every --dtype is possible. Without a GPU that can compute, a plan for
// one is made with the workspaces of the CPU's kernels, and a line of the log gives the reason.
OpenMachine open_machine_to_plan(const OptionValues& values);

}  // namespace comera::tools
