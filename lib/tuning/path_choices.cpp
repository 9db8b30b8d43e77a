#include "lib/tuning/path_choices.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <regex>
#include <vector>

#include "kernels/tt_linear.h"
#include "lib/core/error.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/log.h"
#include "lib/plan/plan.h"

namespace comera::tuning {
namespace {

using kernels::Backend;
using kernels::Context;
using kernels::Op;
using kernels::Status;
using kernels::TtLinearBackward;
using kernels::TtLinearForward;

constexpr int calls_per_round = 4, rounds = 5;
constexpr Path paths[] = {Path::fused, Path::library};

const char* name_of(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::none: return "";
    case kernels::Activation::gelu: return " gelu";
    case kernels::Activation::silu: return " silu";
    case kernels::Activation::tanh: return " tanh";
    case kernels::Activation::gelu_tanh: return " gelu_tanh";
    case kernels::Activation::relu: return " relu";
  }
  return "";
}

// A forward that computes again from T1 has the same key, so it uses the path of the first forward.
std::string ending(const TtLinearForward&) { return ""; }
std::string ending(const TtLinearBackward& a) {
  return std::string(!a.dx ? ", no dx" : a.accumulate_dx ? ", adds dx" : "") + (a.x ? "" : ", no dA");
}

template <class Args>
std::string key_of(const char* op, DType dtype, const Args& a) {
  std::string key = fmt::format("{} {} {} x {} ->", op, comera::name_of(dtype), a.tokens, a.in);
  for (int i = 0; i < a.outputs; ++i) key += fmt::format(" {}/{}", a.output[i].out, a.output[i].rank);
  return key + name_of(a.activation) + ending(a);
}

bool is_key(const std::string& text) {
  static const std::regex form(
      R"(tt_linear_(forward|backward) (f32|bf16) \d{1,12} x \d{1,12} ->( \d{1,12}/\d{1,12}){1,4})"
      R"(( gelu| silu| tanh)?(, no dx|, adds dx)?(, no dA)?)");
  return std::regex_match(text, form);
}

// Assigns consecutive addresses. With a null base it only counts bytes.
class Places {
 public:
  explicit Places(void* base) : base_(static_cast<char*>(base)) {}
  // Moves the pointers of a call. Null pointers stay null.
  template <class T>
  void move(T*& pointer, std::int64_t elements, DType dtype) {
    if (pointer) pointer = take(static_cast<std::size_t>(elements) * size_of(dtype));
  }
  void* take(std::size_t bytes) {
    void* const place = base_ ? base_ + used_ : plan::unbound;
    used_ += plan::aligned(bytes);
    return place;
  }
  std::size_t used() const { return used_; }

 private:
  char* base_;
  std::size_t used_ = 0;
};

void place_output(kernels::TtOutput& o, std::int64_t tokens, DType dtype, Places& places) {
  const DType parameter = kernels::parameter_type(dtype);
  places.move(o.right, o.rank * o.out, dtype);
  places.move(o.bias, o.out, parameter);
  for (void** stream : {&o.y, &o.pre}) places.move(*stream, tokens * o.ldy, dtype);
  places.move(o.dy, tokens * o.ldy, dtype);
  places.move(o.d_right, o.rank * o.out, parameter);
  places.move(o.d_bias, o.out, parameter);
}

void place(TtLinearForward& a, DType dtype, Places& places) {
  places.move(a.x, a.tokens * a.ldx, dtype);
  places.move(a.left, a.in * a.width, dtype);
  places.move(a.t1, a.tokens * a.width, dtype);
  for (int i = 0; i < a.outputs; ++i) place_output(a.output[i], a.tokens, dtype, places);
}

void place(TtLinearBackward& a, DType dtype, Places& places) {
  places.move(a.x, a.tokens * a.ldx, dtype);
  places.move(a.d_left, a.in * a.width, kernels::parameter_type(dtype));
  places.move(a.t1, a.tokens * a.width, dtype);
  places.move(a.left, a.in * a.width, dtype);
  places.move(a.u1, a.tokens * a.width, dtype);
  places.move(a.dx, a.tokens * a.lddx, dtype);
  for (int i = 0; i < a.outputs; ++i) place_output(a.output[i], a.tokens, dtype, places);
}

void check(const Backend& backend, const std::string& what, Status status) {
  if (status != Status::ok) fail_run("[{}] measuring {} failed: {}", backend.name, what, backend.device.failure());
}

using Graph = std::unique_ptr<void, void (*)(void*)>;

// Records some calls in a row in a graph, as a step does, so that host time does not count. One unrecorded call runs
// first, for one-time work of a library.
template <class Args>
Graph record(const Backend& backend, const Context& context, const Op<Args>& op, const Args& call) {
  check(backend, op.name, op.run(context, call));
  check(backend, op.name, backend.device.begin_graph(context));
  Status status = Status::ok;
  for (int i = 0; i < calls_per_round && status == Status::ok; ++i) status = op.run(context, call);
  void* graph = nullptr;
  const Status ended = backend.device.end_graph(context, &graph, nullptr);
  Graph recorded(graph, backend.device.release_graph);
  check(backend, op.name, status == Status::ok ? ended : status);
  return recorded;
}

double by_the_wall(Path, const std::function<void()>& round) {
  const auto start = std::chrono::steady_clock::now();
  round();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace

const char* name_of(Path path) {
  return path == Path::fused ? "fused" : path == Path::library ? "library" : "automatic";
}

PathTable parse_paths(const std::map<std::string, std::string>& texts, const std::string& where) {
  PathTable table;
  for (const auto& [key, name] : texts) {
    const Path path = name == name_of(Path::fused)     ? Path::fused
                      : name == name_of(Path::library) ? Path::library
                                                       : Path::automatic;
    if (!is_key(key) || path == Path::automatic)
      fail_input(
          "{}: \"{:.100}\" = \"{:.20}\": no choice between fused and library; remove this line, and the call is "
          "measured again",
          where, key, name);
    table.emplace(key, path);
  }
  return table;
}

PathChoices::PathChoices(PathTable table, Stopwatch stopwatch)
    : table_(std::move(table)), stopwatch_(stopwatch ? std::move(stopwatch) : Stopwatch(by_the_wall)) {}

Path PathChoices::choose(const Backend& backend, const Context& context, const TtLinearForward& call) {
  return find(backend, context, backend.tt_linear_forward, call);
}
Path PathChoices::choose(const Backend& backend, const Context& context, const TtLinearBackward& call) {
  return find(backend, context, backend.tt_linear_backward, call);
}

template <class Args>
Path PathChoices::find(const Backend& backend, const Context& context, const Op<Args>& op, const Args& call) {
  if (!op.fuses || !op.fuses(context, call)) return Path::automatic;
  const std::string key = key_of(op.name, context.dtype, call);
  const auto found = table_.find(key);
  if (found != table_.end()) return found->second;
  return table_[key] = measure(key, backend, context, op, call);
}

// Rounds of both paths alternate, so that a change of the clock rate favours neither.
template <class Args>
Path PathChoices::measure(const std::string& key, const Backend& backend, const Context& context, const Op<Args>& op,
                          Args call) const {
  std::array<std::size_t, 2> needs{};
  for (std::size_t i = 0; i < needs.size(); ++i) call.path = paths[i], needs[i] = op.workspace_bytes(context, call);
  const std::size_t workspace = std::max(needs[0], needs[1]);
  Places sizes(nullptr);
  place(call, context.dtype, sizes);
  const std::size_t bytes = sizes.used() + plan::aligned(workspace);
  const auto release = [&](void* data) { backend.memory.release(data, bytes); };
  const std::unique_ptr<void, decltype(release)> memory(backend.memory.allocate(bytes), release);
  if (!memory) {
    const Path smaller = needs[1] < needs[0] ? paths[1] : paths[0];
    log_detail("{}: {}, because there is no memory for a measurement", key, name_of(smaller));
    return smaller;
  }
  Places places(memory.get());
  place(call, context.dtype, places);
  Context with_workspace = context;
  with_workspace.workspace = places.take(workspace), with_workspace.workspace_bytes = workspace;
  std::array<std::vector<double>, 2> seconds;
  std::vector<Graph> graphs;
  for (const Path path : paths) call.path = path, graphs.push_back(record(backend, with_workspace, op, call));
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      const double time = stopwatch_(paths[i], [&] {
        check(backend, key, backend.device.launch_graph(context, graphs[i].get()));
        check(backend, key, backend.device.wait(context));
      });
      if (round > 0) seconds[i].push_back(time);  // the first one uploads the graph to the device
    }
  const double fused = median(seconds[0]), library = median(seconds[1]);
  const Path faster = library < fused ? Path::library : Path::fused;
  log_detail("{}: fused {} ms, library {} ms: {}", key, format_digits(1e3 * fused / calls_per_round, 4),
             format_digits(1e3 * library / calls_per_round, 4), name_of(faster));
  return faster;
}

}  // namespace comera::tuning
