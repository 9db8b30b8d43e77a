#include "lib/plan/profile.h"

#include <algorithm>
#include <chrono>

namespace comera::plan {
namespace {

using kernels::Status;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

CallGraph record_calls(const kernels::Device& device, const kernels::Context& context, int calls,
                       const std::function<Status()>& call, Status& status) {
  CallGraph graph(nullptr, device.release_graph);
  status = device.begin_graph(context);
  if (status != Status::ok) return graph;
  for (int i = 0; i < calls && status == Status::ok; ++i) status = call();
  void* recorded = nullptr;
  const Status ended = device.end_graph(context, &recorded, nullptr);
  graph.reset(recorded);
  if (status == Status::ok) status = ended;
  if (status != Status::ok) graph.reset();
  return graph;
}

Status Profile::time(const kernels::Device& device, const kernels::Context& context, const Call& call,
                     const std::function<Status()>& run) {
  double start = now();
  Status status = run();
  if (status == Status::ok && device.wait) status = device.wait(context);
  if (status != Status::ok) return status;
  if (!device.begin_graph || !call.repeats) return add(call, now() - start), Status::ok;
  const CallGraph graph = record_calls(device, context, calls_in_graph, run, status);
  // The first launch is not counted. The host waits once, so that its own time is spread over all calls.
  for (int i = 0; i <= launches && status == Status::ok; ++i) {
    if (i == 1) status = device.wait(context), start = now();
    if (status == Status::ok) status = device.launch_graph(context, graph.get());
  }
  if (status == Status::ok) status = device.wait(context);
  if (status == Status::ok) add(call, (now() - start) / (launches * calls_in_graph));
  return status;
}

void Profile::add(const Call& call, double seconds) {
  auto row = std::find_if(rows_.begin(), rows_.end(),
                          [&](const Row& one) { return one.op == call.op && one.shape == call.shape; });
  if (row == rows_.end()) row = rows_.insert(row, {call.op, call.shape});
  ++row->calls;
  row->seconds += seconds, row->flops += call.flops;
}

}  // namespace comera::plan
