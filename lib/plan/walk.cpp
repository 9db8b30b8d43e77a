#include "lib/plan/walk.h"

#include <cstring>

#include "lib/core/error.h"

namespace comera::plan {
namespace {

const char* sentence_of(kernels::Status status) {
  switch (status) {
    case kernels::Status::ok: return "succeeded";
    case kernels::Status::unsupported_dtype: return "does not support this element type";
    case kernels::Status::unsupported_shape: return "does not support this shape";
    case kernels::Status::workspace_too_small: return "was given too small a workspace";
    case kernels::Status::failed: return "failed";
  }
  return "?";
}

}  // namespace

Walk::Walk(const Machine& machine, Plan& recorded) : machine_(machine), recorded_(&recorded) { recorded = Plan{}; }

Walk::Walk(const Machine& machine, const Plan& plan, void* arena)
    : machine_(machine), plan_(&plan), arena_(static_cast<char*>(arena)) {
#ifdef COMERA_POISON
  set_poison(machine.backend->memory.host_accessible);
#endif
}

void Walk::set_poison(bool poison) {
  uses_.clear();
  if (poison && plan_)
    for (const PlannedTensor& tensor : plan_->tensors) uses_.push_back(tensor.drops);
}

Tensor Walk::make(const char* name, Shape shape, DType dtype, Category category) {
  return recording() ? record_tensor(name, shape, dtype, category) : replay_tensor(shape, dtype);
}

Tensor Walk::record_tensor(const std::string& name, const Shape& shape, DType dtype, Category category) {
  const int id = static_cast<int>(recorded_->tensors.size());
  const Tensor tensor{unbound, dtype, shape, id};
  recorded_->tensors.push_back({.name = prefix_ + name,
                                .shape = shape,
                                .dtype = dtype,
                                .category = category,
                                .bytes = tensor.bytes(),
                                .first = recorded_->ticks,
                                .last = -1});
  uses_.push_back(1);
  return tensor;
}

Tensor Walk::replay_tensor(const Shape& shape, DType dtype) {
  COMERA_CHECK(next_ < static_cast<int>(plan_->tensors.size()));
  const int id = next_++;
  const PlannedTensor& planned = plan_->tensors[id];
  COMERA_CHECK(planned.shape == shape && planned.dtype == dtype);
  return {arena_ + planned.offset, dtype, shape, id};
}

Tensor Walk::keep(const Tensor& tensor) {
  if (recording() && tensor.id >= 0) {
    ++uses_[tensor.id];
    ++recorded_->tensors[tensor.id].drops;
  }
  return tensor;
}

void Walk::drop(Tensor& tensor) {
  if (tensor.id >= 0) {
    if (recording()) {
      COMERA_CHECK(uses_[tensor.id] > 0);
      if (--uses_[tensor.id] == 0) recorded_->tensors[tensor.id].last = recorded_->ticks;
      ++recorded_->ticks;
    } else if (!uses_.empty()) {
      poison_if_unused(tensor);
    }
  }
  tensor = Tensor{};
}

void Walk::poison_if_unused(const Tensor& tensor) {
  COMERA_CHECK(uses_[tensor.id] > 0);
  if (--uses_[tensor.id] == 0 && tensor.bytes() > 0)
    std::memset(tensor.data, 0xff, tensor.bytes());  // NaN in f32, f64 and complex
}

void Walk::update_begins() {
  if (recording()) recorded_->flops_before = recorded_->flops();
}

void Walk::backward_begins() {
  if (!recording()) return;
  recorded_->flops_before = recorded_->flops();
  for (std::size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i] > 0 && recorded_->tensors[i].category == Category::scratch)
      recorded_->tensors[i].category = Category::saved;
}

void Walk::end() {
  add_late_sums();
  if (!recording()) {
    COMERA_CHECK(next_ == static_cast<int>(plan_->tensors.size()));
    return;
  }
  for (std::size_t i = 0; i < uses_.size(); ++i)
    if (uses_[i] != 0)
      throw std::logic_error(fmt::format("[plan] tensor {} is never dropped", recorded_->tensors[i].name));
  recorded_->lay_out();
}

void Walk::record_call(const char* op, bool present, std::size_t workspace, double flops) {
  if (!present)
    fail_input("[device] the {} backend has no op {}; use another --device, or leave out the option that needs it",
               machine_.backend->name, op);
  if (workspace > 0) {
    Tensor space = record_tensor(std::string(op) + ".workspace", {static_cast<std::int64_t>(workspace)}, DType::u8,
                                 Category::scratch);
    drop(space);
  }
  ++recorded_->ticks;
  for (OpCount& count : recorded_->ops)
    if (count.op == op) {
      ++count.calls;
      count.flops += flops;
      return;
    }
  recorded_->ops.push_back({op, 1, flops});
}

void Walk::take_workspace(std::size_t bytes, kernels::Context& call) {
  if (bytes == 0) return;
  call.workspace = replay_tensor({static_cast<std::int64_t>(bytes)}, DType::u8).data;
  call.workspace_bytes = bytes;
}

// Memory for the parts of the sums that a call leaves.
Tensor Walk::make_parts(const char* op, std::size_t bytes, kernels::Context& call) {
  if (bytes == 0) return {};
  const std::string name = recording() ? std::string(op) + ".late_parts" : "";
  const Tensor parts = make(name.c_str(), {static_cast<std::int64_t>(bytes)}, DType::u8);
  call.late_parts = parts.data, call.earlier = &late_;
  return parts;
}

void Walk::leave(const Tensor& parts, const kernels::LateSums& sums) {
  if (!late_parts_.empty()) drop(late_parts_);
  late_parts_ = parts, late_ = sums;
}

void Walk::add_late_sums() {
  if (late_parts_.empty()) return;
  run(backend().late_sums, late_);
  drop(late_parts_);
  late_ = {};
}

void Walk::check(const char* op, kernels::Status status) const {
  if (status == kernels::Status::ok) return;
  const kernels::Device& device = machine_.backend->device;
  if (status == kernels::Status::failed && device.failure)
    fail_run("[{}] op {} failed: {}", machine_.backend->name, op, device.failure());
  throw std::logic_error(fmt::format("[{}] op {} {}", machine_.backend->name, op, sentence_of(status)));
}

Walk::Scope::Scope(Walk& walk, const char* label) : walk_(walk), length_(walk.prefix_.size()) {
  if (walk.recording()) walk.prefix_.append(label).append(".");
}

Walk::Scope::~Scope() { walk_.prefix_.resize(length_); }

}  // namespace comera::plan
