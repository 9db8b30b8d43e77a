// A walk through a step. Layers are written once, as straight lists of kernel calls between make() and drop(). The
// first walk at a shape *records*: without memory or arithmetic it finds lifetimes, workspaces and FLOPs. Later walks
// *replay* the same list with every tensor at its planned place. So the plan always matches the calls, and a replay
// allocates nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/late_sums.h"
#include "lib/plan/call_shape.h"
#include "lib/plan/path_chooser.h"
#include "lib/plan/plan.h"
#include "lib/plan/profile.h"

namespace comera::plan {

// The machine: a backend's table, the activation dtype (kernels/types.h), the backend's queue.
struct Machine {
  const kernels::Backend* backend = nullptr;
  DType dtype = DType::f32;
  void* stream = nullptr;
  bool tf32 = false, fp8 = false;  // kernels::Context
  PathChooser* paths = nullptr;    // null: the backend's own rules decide

  kernels::Context context() const { return {dtype, stream, nullptr, 0, tf32, fp8}; }
};

class Walk {
 public:
  Walk(const Machine& machine, Plan& recorded);                 // records into an empty plan
  Walk(const Machine& machine, const Plan& plan, void* arena);  // replays
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  bool recording() const { return recorded_ != nullptr; }
  bool computes() const { return !recording() && !silent_; }
  const kernels::Backend& backend() const { return *machine_.backend; }
  DType dtype() const { return machine_.dtype; }

  // Makes a tensor that lives until it is dropped once, and once more for every keep(). Its contents are unspecified.
  Tensor make(const char* name, Shape shape) { return make(name, shape, machine_.dtype); }
  Tensor make(const char* name, Shape shape, DType dtype, Category category = Category::scratch);
  // Makes a tensor of the parameters' type, for sums, norms and maxima.
  Tensor make_statistic(const char* name, Shape shape) {
    return make(name, shape, kernels::parameter_type(machine_.dtype));
  }
  Tensor keep(const Tensor& tensor);
  void drop(Tensor& tensor);  // empties the handle; a tensor that the plan does not own is only emptied
  // Labels tensors of the forward that are still alive as saved. Called when the backward begins.
  void backward_begins();
  // Separates the FLOPs of the gradients from those of the update, which follow.
  void update_begins();
  // Ends the walk. A recording lays out its plan. All tensors must have been dropped.
  void end();

  // Runs one call of an op with the workspace that it needs. Throws if the backend lacks the op or the call fails. A
  // call that leaves sums (kernels/late_sums.h) adds those that an earlier one has left.
  template <class Args>
  void run(const kernels::Op<Args>& op, const Args& args) {
    kernels::Context call = context();
    const std::size_t late = op.late ? op.late(call, args, unbound).bytes : 0;
    Tensor parts = make_parts(op.name, late, call);
    const std::size_t workspace = op.workspace_bytes ? op.workspace_bytes(call, args) : 0;
    if (recording()) {
      record_call(op.name, op.run != nullptr, workspace, flops(args));
    } else {
      take_workspace(workspace, call);
      if (poll_) (*poll_)();
      if (!silent_) check(op.name, profile_ ? profiled(op, call, args) : op.run(call, args));
    }
    if (late > 0) leave(parts, op.late(call, args, parts.data));
  }
  // Adds the sums that calls have left. Needed before a gradient is read within the walk; end() does it too.
  void add_late_sums();

  // Like run(), for calls that have a `path`. It is chosen in the recording and stored in the plan.
  template <class Args>
  void run_chosen(const kernels::Op<Args>& op, Args args) {
    if (recording()) {
      args.path = machine_.paths ? machine_.paths->choose(*machine_.backend, context(), args) : Path::automatic;
      recorded_->paths.push_back(args.path);
    } else {
      args.path = plan_->paths.at(next_path_++);
    }
    run(op, args);
  }

  // In a silent replay tensors are made and dropped, but no op runs.
  void set_silent(bool silent) { silent_ = silent; }
  void set_profile(Profile* profile) { profile_ = profile; }
  // Called before each op of a replay; null: nothing is called. It may throw to abandon the walk.
  void set_poll(const std::function<void()>* poll) { poll_ = poll; }
  // Fills tensors with NaN after their lifetime. Requires host memory. Must come before the first make().
  void set_poison(bool poison);

  // Names of tensors made inside are prefixed "label.".
  class Scope {
   public:
    Scope(Walk& walk, const char* label);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Walk& walk_;
    std::size_t length_;
  };

 private:
  kernels::Context context() const { return machine_.context(); }
  void record_call(const char* op, bool present, std::size_t workspace, double flops);
  void take_workspace(std::size_t bytes, kernels::Context& call);
  Tensor make_parts(const char* op, std::size_t bytes, kernels::Context& call);
  void leave(const Tensor& parts, const kernels::LateSums& sums);
  void check(const char* op, kernels::Status status) const;
  template <class Args>
  kernels::Status profiled(const kernels::Op<Args>& op, const kernels::Context& call, const Args& args) {
    const kernels::Device& device = machine_.backend->device;
    const Profile::Call what{op.name, device.open ? shape_of(args) : "", flops(args), !HasTicket<Args>};
    return profile_->time(device, call, what, [&] { return op.run(call, args); });
  }
  Tensor record_tensor(const std::string& name, const Shape& shape, DType dtype, Category category);
  Tensor replay_tensor(const Shape& shape, DType dtype);
  void poison_if_unused(const Tensor& tensor);

  Machine machine_;
  Plan* recorded_ = nullptr;
  const Plan* plan_ = nullptr;
  char* arena_ = nullptr;
  int next_ = 0;  // row of the plan for the next make() or workspace
  std::size_t next_path_ = 0;
  std::vector<int> uses_;  // remaining drops by row, for recording and for poisoning
  std::string prefix_;
  bool silent_ = false;
  Profile* profile_ = nullptr;
  const std::function<void()>* poll_ = nullptr;
  kernels::LateSums late_;  // left by the latest call that leaves sums
  Tensor late_parts_;
};

}  // namespace comera::plan
