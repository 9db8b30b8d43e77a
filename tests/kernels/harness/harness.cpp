#include "tests/kernels/harness/harness.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/kernels/harness/element.h"

namespace comera::kernels::test {
namespace {

std::uint32_t seed_of(const std::string& text) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619u;
  return hash;
}

std::vector<double> normal_numbers(const std::string& seed, std::int64_t count, double scale) {
  std::mt19937 random(seed_of(seed));
  std::normal_distribution<float> normal;
  std::vector<double> v(count);
  for (double& x : v) x = static_cast<float>(scale * normal(random));
  return v;
}

constexpr std::size_t guard_bytes = 256;
constexpr std::uint8_t guard_value = 0xA5;

}  // namespace

Case& Case::data(const std::string& tensor, std::int64_t rows, std::int64_t columns, std::int64_t ld, double scale) {
  empty(tensor, rows, columns, ld);
  tensors.back().start = normal_numbers(name + tensor, rows * columns, scale);
  return *this;
}

Case& Case::empty(const std::string& tensor, std::int64_t rows, std::int64_t columns, std::int64_t ld) {
  Tensor t;
  t.name = tensor, t.rows = rows, t.columns = columns, t.ld = ld ? ld : columns;
  tensors.push_back(t);
  return *this;
}

Case& Case::values(const std::string& tensor, std::vector<double> start, Content kind) {
  empty(tensor, 1, static_cast<std::int64_t>(start.size()));
  tensors.back().kind = kind;
  tensors.back().start = std::move(start);
  return *this;
}

Case& Case::integers(const std::string& tensor, const std::vector<std::int64_t>& start, Content kind) {
  return values(tensor, {start.begin(), start.end()}, kind);
}

Case& Case::add_bytes(const std::string& tensor, std::vector<std::uint8_t> raw) {
  empty(tensor, 1, static_cast<std::int64_t>(raw.size()));
  tensors.back().kind = Content::bytes;
  tensors.back().raw = std::move(raw);
  return *this;
}

Case& Case::dropout(const std::string& tensor, double probability, std::uint32_t site,
                    const std::vector<std::int64_t>& samples, std::int64_t tokens_per_sample) {
  Dropout d;
  d.probability = probability, d.site = site, d.tokens_per_sample = tokens_per_sample;
  dropouts[tensor] = d;
  StepScalars scalars;
  scalars.seed = 1234, scalars.step = 56;
  bytes(tensor + ".scalars", scalars);
  return integers(tensor + ".samples", samples, Content::i64);
}

Case& Case::output(const std::string& value, const std::string& weight) {
  outputs.push_back({value, weight});
  return *this;
}

Case& Case::gradient(const std::string& input, const std::string& gradient, bool accumulated) {
  gradients.push_back({input, gradient, accumulated});
  return *this;
}

Case& Case::same(const std::string& a, const std::string& b) {
  equal.emplace_back(a, b);
  return *this;
}

Tensor& Case::tensor(const std::string& wanted) {
  for (Tensor& t : tensors)
    if (t.name == wanted) return t;
  throw std::out_of_range(name + ": no tensor " + wanted);
}

Buffer::Buffer(std::size_t bytes) : bytes_(bytes + 2 * guard_bytes + 64, guard_value), size_(bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes_.data()) + guard_bytes;
  offset_ = guard_bytes + (64 - first % 64) % 64;
}

Buffer::Buffer(const Tensor& t, Representation representation)
    : Buffer(t.rows * t.ld * element_bytes(t.kind, representation)) {
  if (t.kind == Content::bytes) std::copy(t.raw.begin(), t.raw.end(), data());
  for (std::int64_t i = 0; t.kind != Content::bytes && i < t.rows * t.ld; ++i) {
    const std::int64_t row = i / t.ld, column = i % t.ld;
    void* element = data() + i * element_bytes(t.kind, representation);
    if (t.start.empty() || column >= t.columns) {
      set_poison(element, t.kind, representation);
    } else {
      set_element(element, t.kind, representation, t.start[row * t.columns + column]);
    }
  }
}

bool Buffer::guards_stand() const {
  const auto untouched = [](std::uint8_t byte) { return byte == guard_value; };
  return std::all_of(bytes_.begin(), bytes_.begin() + offset_, untouched) &&
         std::all_of(bytes_.begin() + offset_ + size_, bytes_.end(), untouched);
}

Mirror::Mirror(const Column& column, Buffers& buffers) : column_(column) {
  constexpr std::size_t alignment = 256;
  for (auto& [name, buffer] : buffers) {
    const std::size_t place = (bytes_ + buffer.offset() + alignment - 1) / alignment * alignment;
    places_[name] = place;
    bytes_ = place + buffer.whole().size() - buffer.offset();
  }
  slab_ = static_cast<std::uint8_t*>(column.backend->memory.allocate(bytes_));
  if (!slab_) throw std::runtime_error("no memory on the device for a case");
}

Mirror::~Mirror() { column_.backend->memory.release(slab_, bytes_); }

bool Mirror::upload(Buffers& buffers) const {
  const Context context{DType::f32, column_.stream, nullptr, 0};
  return std::all_of(buffers.begin(), buffers.end(), [&](auto& item) {
    auto& [name, buffer] = item;
    return column_.backend->memory.upload(context, slab_ + places_.at(name) - buffer.offset(), buffer.whole().data(),
                                          buffer.whole().size()) == Status::ok;
  });
}

bool Mirror::download(Buffers& buffers) const {
  const Context context{DType::f32, column_.stream, nullptr, 0};
  return std::all_of(buffers.begin(), buffers.end(), [&](auto& item) {
    auto& [name, buffer] = item;
    return column_.backend->memory.download(context, buffer.whole().data(), slab_ + places_.at(name) - buffer.offset(),
                                            buffer.whole().size()) == Status::ok;
  });
}

Run::Run(const Case& c, const Column& column, Representation representation, void* stream)
    : case_(c), column_(column), native_(representation), current_(representation), stream_(stream) {
  for (const Tensor& t : c.tensors) buffers_[native_].emplace(t.name, Buffer(t, native_));
  if (column.on_device()) mirror_ = std::make_unique<Mirror>(column_, buffers_[native_]);
}

void* Run::at(const std::string& tensor) {
  const auto found = buffers_[current_].find(tensor);
  if (found == buffers_[current_].end()) throw std::out_of_range(case_.name + ": no tensor " + tensor);
  if (on_device_ && current_ == native_) return mirror_->data_of(tensor);
  return found->second.data();
}

void* Run::out(const std::string& tensor) {
  written_[tensor] = true;
  return at(tensor);
}

const void* Run::in_at(const std::string& tensor, std::int64_t offset) {
  return static_cast<const std::uint8_t*>(in(tensor)) + offset * element_bytes(Content::real, current_);
}

void* Run::out_at(const std::string& tensor, std::int64_t offset) {
  return static_cast<std::uint8_t*>(out(tensor)) + offset * element_bytes(Content::real, current_);
}

Dropout Run::dropout(const std::string& name) {
  const auto found = case_.dropouts.find(name);
  if (found == case_.dropouts.end()) return {};
  Dropout d = found->second;
  d.scalars = scalars(name + ".scalars");
  d.samples = static_cast<const std::int64_t*>(in(name + ".samples"));
  return d;
}

Context Run::plain_context() const {
  Context context;
  context.dtype = native_ == Representation::f32   ? DType::f32
                  : native_ == Representation::f64 ? DType::f64
                                                   : DType::c128;
  context.stream = column_.on_device() ? column_.stream : stream_;
  return context;
}

Context Run::context_with(std::size_t workspace_bytes) {
  workspace_["workspace"] = Buffer(workspace_bytes);
  Buffer& workspace = workspace_["workspace"];
  std::memset(workspace.data(), 0xFF, workspace_bytes);  // NaN in every format
  Context context = plain_context();
  context.workspace = workspace.data();
  context.workspace_bytes = workspace_bytes;
  if (on_device_) {
    workspace_mirror_ = std::make_unique<Mirror>(column_, workspace_);
    context.workspace = workspace_mirror_->data_of("workspace");
  }
  return context;
}

std::string Run::words_of_failure(Status status) const {
  const Device& device = column_.backend->device;
  return status == Status::failed && device.failure ? std::string(": ") + device.failure() : "";
}

void Run::before_call(const std::string& op) {
  if (on_device_ && !(mirror_->upload(buffers_[native_]) && workspace_mirror_->upload(workspace_)))
    problem(op, "copying to the device failed" + words_of_failure(Status::failed));
}

void Run::after_call(const std::string& op) {
  if (!on_device_) return;
  if (column_.backend->device.wait(plain_context()) != Status::ok)
    problem(op, "failed" + words_of_failure(Status::failed));
  if (!(mirror_->download(buffers_[native_]) && workspace_mirror_->download(workspace_)))
    problem(op, "copying from the device failed" + words_of_failure(Status::failed));
}

void Run::problem(const std::string& op, const std::string& text) {
  problems_.push_back(op + " on " + column_.name + ": " + text + "; repeat with COMERA_CASE='" + case_.name + "'");
}

void Run::check_guards(const std::string& op) {
  for (const auto& [name, buffer] : buffers_[current_])
    if (!buffer.guards_stand()) problem(op, "wrote outside of " + name);
  if (!workspace_["workspace"].guards_stand()) problem(op, "wrote outside of its workspace");
}

void Run::begin_compare() {
  Buffers& tracked = buffers_[Representation::tracked];
  for (const Tensor& t : case_.tensors) tracked[t.name] = to_tracked(t, buffers_[native_][t.name]);
  before_ = buffers_[native_];
  written_.clear();
  current_ = Representation::tracked;
}

void Run::end_compare(const std::string& op, bool ran, Seen& seen) {
  for (const Tensor& t : case_.tensors) {
    if (ran) compare(t, op, seen);
    take_reference(t);
  }
}

void Run::compare(const Tensor& t, const std::string& op, Seen& seen) {
  const Buffer &got = buffers_[native_][t.name], &before = before_[t.name];
  if (!written_[t.name]) {
    if (!same_bytes(got, before)) problem(op, "changed " + t.name + ", which it may only read");
    return;
  }
  const Difference worst = largest_difference(t, got, before, buffers_[Representation::tracked][t.name]);
  seen.largest = std::max(seen.largest, worst.fraction);
  if (worst.fraction > 1)
    problem(op, t.name + "[" + std::to_string(worst.index / t.ld) + ", " + std::to_string(worst.index % t.ld) + "] " +
                    worst.text);
}

// Restores the inputs of the next call from the reference's result, rounded.
void Run::take_reference(const Tensor& t) {
  Buffer& state = buffers_[native_][t.name];
  std::memcpy(state.data(), before_[t.name].data(), state.size());
  if (written_[t.name]) from_tracked(t, buffers_[Representation::tracked][t.name], state);
}

}  // namespace comera::kernels::test
