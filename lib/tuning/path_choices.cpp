#include "lib/tuning/path_choices.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/philox.h"
#include "kernels/tt_linear.h"
#include "lib/core/error.h"
#include "lib/core/reals.h"
#include "lib/core/terminal/log.h"
#include "lib/plan/plan.h"
#include "lib/plan/profile.h"

namespace comera::tuning {
namespace {

using kernels::Backend;
using kernels::Context;
using kernels::Op;
using kernels::Status;
using kernels::TtLinearBackward;
using kernels::TtLinearForward;

constexpr int calls_per_round = 20, rounds = 5;
constexpr double warm_seconds = 0.1;  // an idle GPU has a low clock rate
constexpr double long_seconds = 0.5;  // of timed rounds; a slower device gets fewer of them
constexpr Path paths[] = {Path::fused, Path::library};

// By kernels::Activation.
constexpr const char* activation_names[] = {"", " gelu", " silu", " tanh", " gelu_tanh", " relu"};
static_assert(std::size(activation_names) == static_cast<std::size_t>(kernels::Activation::relu) + 1);

// A forward that computes again from T1 has the same key, so it uses the path of the first forward.
std::string ending(const TtLinearForward&) { return ""; }
std::string ending(const TtLinearBackward& a) {
  return std::string(!a.dx ? ", no dx" : a.accumulate_dx ? ", adds dx" : "") + (a.x ? "" : ", no dA");
}

template <class Args>
std::string key_of(const char* op, DType dtype, const Args& a) {
  std::string key = fmt::format("{} {} {} x {} ->", op, comera::name_of(dtype), a.tokens, a.in);
  for (int i = 0; i < a.outputs; ++i) key += fmt::format(" {}/{}", a.output[i].out, a.output[i].rank);
  return key + activation_names[static_cast<std::size_t>(a.activation)] + ending(a);
}

// Removes `start` from the front of `text`; false if the text begins otherwise.
bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

bool take_number(std::string_view& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(digits);
  return 0 < digits && digits <= 12;
}

// True for what key_of() makes.
bool is_key(std::string_view text) {
  const bool forward = take(text, "tt_linear_forward ");
  if (!forward && !take(text, "tt_linear_backward ")) return false;
  if (!take(text, "f32 ") && !take(text, "bf16 ")) return false;
  if (!take_number(text) || !take(text, " x ") || !take_number(text) || !take(text, " ->")) return false;
  int outputs = 0;
  while (text.size() > 1 && text[0] == ' ' && '0' <= text[1] && text[1] <= '9') {
    text.remove_prefix(1);
    if (++outputs > 4 || !take_number(text) || !take(text, "/") || !take_number(text)) return false;
  }
  if (outputs == 0) return false;
  const std::string_view activation = text.substr(0, text.find(','));
  if (std::ranges::find(activation_names, activation) == std::end(activation_names)) return false;
  text.remove_prefix(activation.size());
  if (!forward) {
    if (!take(text, ", no dx")) take(text, ", adds dx");
    take(text, ", no dA");
  }
  return text.empty();
}

// Assigns consecutive addresses. With a null base it only counts bytes.
class Places {
 public:
  struct Part {
    void* data;
    std::int64_t elements;
    DType dtype;
  };

  explicit Places(void* base) : base_(static_cast<char*>(base)) {}
  // Moves the pointers of a call. Null pointers stay null.
  template <class T>
  void move(T*& pointer, std::int64_t elements, DType dtype) {
    if (!pointer) return;
    void* const place = take(static_cast<std::size_t>(elements) * size_of(dtype));
    pointer = place;
    parts_.push_back({place, elements, dtype});
  }
  void* take(std::size_t bytes) {
    void* const place = base_ ? base_ + used_ : plan::unbound;
    used_ += plan::aligned(bytes);
    return place;
  }
  std::size_t used() const { return used_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  char* base_;
  std::size_t used_ = 0;
  std::vector<Part> parts_;
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

// Random numbers in [-1, 1].
std::vector<std::byte> random_bytes(DType dtype, std::int64_t elements) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size);
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const auto word = std::bit_cast<std::uint32_t>(static_cast<float>(kernels::mix64(at) >> 11) * 0x1p-52f - 1);
    const auto upper = static_cast<std::uint16_t>(word >> 16);  // a bf16 is the upper half of a float
    dtype == DType::bf16 ? std::memcpy(&bytes[at], &upper, sizeof upper) : std::memcpy(&bytes[at], &word, sizeof word);
  }
  return bytes;
}

// Fills the tensors with random numbers, which repeat. Zeros need less power and allow a higher clock rate.
void fill(const Backend& backend, const Context& context, const std::vector<Places::Part>& parts) {
  constexpr std::int64_t period = 1 << 16;
  for (const Places::Part& part : parts) {
    COMERA_CHECK(part.dtype == DType::bf16 || part.dtype == DType::f32);
    const std::vector<std::byte> bytes = random_bytes(part.dtype, std::min(period, part.elements));
    const std::size_t all = static_cast<std::size_t>(part.elements) * size_of(part.dtype);
    for (std::size_t at = 0; at < all; at += bytes.size())
      check(backend, "the upload",
            backend.memory.upload(context, static_cast<char*>(part.data) + at, bytes.data(),
                                  std::min(bytes.size(), all - at)));
    check(backend, "the upload", backend.device.wait(context));
  }
}

bool is_unsupported(Status status) {
  return status == Status::unsupported_dtype || status == Status::unsupported_shape;
}

using Graph = plan::CallGraph;

// Records some calls in a row in a graph, as a step does, so that host time does not count. One unrecorded call runs
// first, for one-time work of a library. Null if the path does not support the call.
template <class Args>
Graph record(const Backend& backend, const Context& context, const Op<Args>& op, const Args& call) {
  const Status first = op.run(context, call);
  if (is_unsupported(first)) return {nullptr, backend.device.release_graph};
  check(backend, op.name, first);
  Status status = Status::ok;
  Graph recorded = plan::record_calls(
      backend.device, context, calls_per_round, [&] { return op.run(context, call); }, status);
  check(backend, op.name, status);
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

// Rounds of both paths alternate, so that a change of the clock rate favours neither. The first ones are not counted.
std::array<double, 2> PathChoices::medians(const std::array<std::function<void()>, 2>& runs) const {
  std::array<std::vector<double>, 2> seconds;
  const auto round = [&](std::size_t i) { return stopwatch_(paths[i], runs[i]); };
  for (double warm = 0; warm < warm_seconds;) warm += round(0) + round(1);
  double all = 0;
  for (int i = 0; i < rounds && (i == 0 || all < long_seconds); ++i)
    for (std::size_t path = 0; path < runs.size(); ++path) {
      seconds[path].push_back(round(path));
      all += seconds[path].back();
    }
  return {median(seconds[0]), median(seconds[1])};
}

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
  fill(backend, context, places.parts());
  Context with_workspace = context;
  with_workspace.workspace = places.take(workspace), with_workspace.workspace_bytes = workspace;
  return faster(key, backend, context, [&](Path path) {
    call.path = path;
    return record(backend, with_workspace, op, call).release();
  });
}

Path PathChoices::faster(const std::string& key, const Backend& backend, const Context& context,
                         const std::function<void*(Path)>& record) const {
  std::vector<Graph> graphs;
  for (const Path path : paths) graphs.emplace_back(record(path), backend.device.release_graph);
  for (std::size_t i = 0; i < graphs.size(); ++i)
    if (!graphs[i]) {
      const Path other = paths[1 - i];
      if (!graphs[1 - i]) fail_run("[{}] {}: neither path supports this call", backend.name, key);
      log_detail("{}: {}, because the other path does not support this call", key, name_of(other));
      return other;
    }
  const auto run = [&](std::size_t i) {
    return std::function<void()>([&, i] {
      check(backend, key, backend.device.launch_graph(context, graphs[i].get()));
      check(backend, key, backend.device.wait(context));
    });
  };
  const auto [fused, library] = medians({run(0), run(1)});
  const Path faster = library < fused ? Path::library : Path::fused;
  log_detail("{}: fused {} ms, library {} ms: {}", key, format_digits(1e3 * fused / calls_per_round, 4),
             format_digits(1e3 * library / calls_per_round, 4), name_of(faster));
  return faster;
}

}  // namespace comera::tuning
