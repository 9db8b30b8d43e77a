// Harness of the kernel tests: one table of cases serves all tests of an op. A case is a set of named tensors and one
// or two short programs of calls:
//
//   Case c("K=3 M=4 N=5 gelu");
//   c.data("x", 3, 4, 6).data("w", 4, 5).empty("y", 3, 5);      // 6: distance between rows
//   c.data("d_y", 3, 5).empty("d_x", 3, 4);
//   c.forward = [](Run& r) {
//     r.call(&Backend::linear_forward, [&] { LinearForward a; a.x = r.in("x"); a.y = r.out("y"); ...; return a; });
//   };
//   c.backward = [](Run& r) { ... };
//   c.output("y", "d_y").gradient("x", "d_x").gradient("w", "d_w", true);      // true: accumulated
//
// The test file of a stem has a list of its cases. They are used by
//   check_gradients  compares the complex step on the reference (forward in c128) with its backward in f64;
//   check_backends   compares every call, in f32 on every backend of this machine, with the reference on the same f32
//                    inputs in double. The bound is derived from the data by Tracked. Outputs and gaps between rows are
//                    NaN before the call. Elements that the reference does not write must keep their bytes. So must
//                    tensors from in(), and the guards around all tensors;
//   check_repeat     requires the same bytes on repetition, without a pool and with pools of 1, 2 and 3 threads.
// If a backend lacks an op, the check prints a warning and uses the reference instead. COMERA_CASE=text runs only cases
// whose name contains the text. COMERA_FULL=1 also runs the large ones. COMERA_COLUMN=name runs one backend.
// COMERA_REQUIRE_GPU=1 fails if there is no GPU.
//
// The lambdas run several times, with pointers to different representations of the same tensors. Every pointer that a
// backend reads or writes must come from in(), out() or keep().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/harness/tracked.h"

namespace comera::kernels::test {

// Content of an element. `real` follows the dtype of the call; `wide` is double, or complex in c128 calls.
enum class Content { real, wide, f64, i32, i64, bytes };
enum class Representation { f32, f64, c128, tracked };

struct Tensor {
  std::string name;
  Content kind = Content::real;
  std::int64_t rows = 0, columns = 0, ld = 0;
  std::vector<double> start;      // real, wide, f64, i32, i64; [rows, columns]; empty: poison
  std::vector<std::uint8_t> raw;  // bytes
  double f64_roundings = 0;       // f64: tolerance in relative roundings to double
  bool loose = false;             // elements that the reference does not write may hold any value
};

struct Column {
  std::string name;
  const Backend* backend = nullptr;
  void* stream = nullptr;  // of a device
  // Variations that must have the same bytes: pools of 1, 2 and 3 threads on the CPU, orders of threads in the
  // emulator.
  std::vector<std::function<void()>> variations;
  bool on_device() const { return !backend->memory.host_accessible; }
  bool has_bf16() const { return on_device() || name == "cpu v4bf16" || name == "cpu v4amx"; }
};
// The reference in f32, every CPU table that this machine supports, the emulator, and the GPU if there is one.
const std::vector<Column>& columns();

class Run;

struct Case {
  std::string name;
  bool full = false;
  std::vector<Tensor> tensors;
  std::function<void(Run&)> forward, backward;

  struct Output {
    std::string value, weight;  // the objective is the sum of value * weight; without weight, of value
  };
  struct Gradient {
    std::string input, gradient;
    bool accumulated;
  };
  std::vector<Output> outputs;
  std::vector<Gradient> gradients;
  std::vector<std::pair<std::string, std::string>> equal;  // check_repeat: these must have the same bytes

  explicit Case(std::string name) : name(std::move(name)) {}
  // Normal numbers, rounded to f32; equal names give equal numbers. ld 0: contiguous.
  Case& data(const std::string& tensor, std::int64_t rows, std::int64_t columns, std::int64_t ld = 0, double scale = 1);
  Case& empty(const std::string& tensor, std::int64_t rows, std::int64_t columns, std::int64_t ld = 0);
  Case& values(const std::string& tensor, std::vector<double> start, Content kind = Content::real);
  Case& integers(const std::string& tensor, const std::vector<std::int64_t>& start, Content kind = Content::i32);
  template <class Struct>
  Case& bytes(const std::string& tensor, const Struct& value) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(&value);
    return add_bytes(tensor, {first, first + sizeof value});
  }
  Case& bytes(const std::string& tensor, const std::vector<std::uint8_t>& values) { return add_bytes(tensor, values); }
  Case& dropout(const std::string& tensor, double probability, std::uint32_t site,
                const std::vector<std::int64_t>& samples, std::int64_t tokens_per_sample);
  Case& output(const std::string& value, const std::string& weight = "");
  Case& gradient(const std::string& input, const std::string& gradient, bool accumulated = false);
  Case& same(const std::string& a, const std::string& b);
  Tensor& tensor(const std::string& name);
  const Tensor& tensor(const std::string& name) const { return const_cast<Case*>(this)->tensor(name); }
  std::map<std::string, Dropout> dropouts;

 private:
  Case& add_bytes(const std::string& tensor, std::vector<std::uint8_t> raw);
};

// A tensor in one representation, with guard words on both sides.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes = 0);
  Buffer(const Tensor& tensor, Representation representation);
  std::uint8_t* data() { return bytes_.data() + offset_; }
  const std::uint8_t* data() const { return bytes_.data() + offset_; }
  std::size_t size() const { return size_; }
  std::vector<std::uint8_t>& whole() { return bytes_; }  // guards included
  std::size_t offset() const { return offset_; }         // offset of data() in whole()
  bool guards_stand() const;

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t offset_ = 0, size_ = 0;
};
using Buffers = std::map<std::string, Buffer>;

// Copies of the tensors in device memory that the host cannot access. Every call uploads and downloads all bytes,
// guards included.
class Mirror {
 public:
  Mirror(const Column& column, Buffers& buffers);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  void* data_of(const std::string& tensor) const { return slab_ + places_.at(tensor); }
  bool upload(Buffers& buffers) const;
  bool download(Buffers& buffers) const;

 private:
  const Column& column_;
  std::map<std::string, std::size_t> places_;  // of data()
  std::uint8_t* slab_ = nullptr;
  std::size_t bytes_ = 0;
};

// Results of check_backends for one op.
struct Seen {
  int calls = 0, missing = 0;
  double largest = 0;  // largest error as a fraction of its bound
};
using Summary = std::map<std::string, Seen>;

// One execution of a case's programs on one backend.
class Run {
 public:
  Run(const Case& c, const Column& column, Representation representation, void* stream = nullptr);

  const void* in(const std::string& tensor) { return at(tensor); }
  void* out(const std::string& tensor);
  // Elements of the call's dtype, starting at an offset.
  const void* in_at(const std::string& tensor, std::int64_t offset);
  void* out_at(const std::string& tensor, std::int64_t offset);
  const std::int32_t* ints(const std::string& tensor) { return static_cast<const std::int32_t*>(at(tensor)); }
  const double* doubles(const std::string& tensor) { return static_cast<const double*>(at(tensor)); }
  const StepScalars* scalars(const std::string& tensor) { return static_cast<const StepScalars*>(at(tensor)); }
  std::size_t byte_count(const std::string& tensor) const { return buffers_.at(current_).at(tensor).size(); }
  Dropout dropout(const std::string& name);
  // Host memory that lives as long as the run, for descriptors that a call points to.
  template <class X>
  X* keep(X value) {
    auto shared = std::make_shared<X>(std::move(value));
    kept_.push_back(shared);
    return shared.get();
  }

  template <class Args, class Make>
  void call(Op<Args> Backend::*member, const Make& make) {
    const Op<Args>& op = column_.backend->*member;
    const Op<Args>& reference = reference_backend().*member;
    if (!summary_) {
      on_device_ = mirror_ && op.run;
      return run_op(op.run ? op : reference, make());
    }
    begin_compare();
    compute_tracked<Args>(make());
    current_ = Representation::f32;
    Seen& seen = (*summary_)[reference.name];
    ++(op.run ? seen.calls : seen.missing);
    on_device_ = mirror_ != nullptr;
    if (op.run) run_op(op, make());
    on_device_ = false;
    end_compare(reference.name, op.run != nullptr, seen);
  }

  // Compares every call with the reference on the same inputs. The next call starts from the reference's outputs.
  void compare_with_reference(Summary* summary) { summary_ = summary; }
  Buffers& buffers() { return buffers_[current_]; }
  const std::vector<std::string>& problems() const { return problems_; }
  void forward() { case_.forward(*this); }
  void backward() {
    if (case_.backward) case_.backward(*this);
  }

 private:
  void* at(const std::string& tensor);
  template <class Args>
  void run_op(const Op<Args>& op, const Args& args) {
    const Context context = context_with(op.workspace_bytes ? op.workspace_bytes(plain_context(), args) : 0);
    before_call(op.name);
    const Status status = op.run(context, args);
    if (status != Status::ok)
      problem(op.name, "answered status " + std::to_string(static_cast<int>(status)) + words_of_failure(status));
    after_call(op.name);
    check_guards(op.name);
  }
  std::string words_of_failure(Status status) const;
  void before_call(const std::string& op);
  void after_call(const std::string& op);
  Context plain_context() const;
  Context context_with(std::size_t workspace_bytes);
  void check_guards(const std::string& op);
  void problem(const std::string& op, const std::string& text);
  void begin_compare();
  void end_compare(const std::string& op, bool ran, Seen& seen);
  void compare(const Tensor& tensor, const std::string& op, Seen& seen);
  void take_reference(const Tensor& tensor);

  const Case& case_;
  Column column_;
  Representation native_, current_;
  void* stream_;
  Summary* summary_ = nullptr;
  std::map<Representation, Buffers> buffers_;
  Buffers before_;
  std::map<std::string, bool> written_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::string> problems_;
  Buffers workspace_;  // one
  std::unique_ptr<Mirror> mirror_, workspace_mirror_;
  bool on_device_ = false;  // pointers refer to device memory
};

std::vector<Case> chosen(std::vector<Case> cases);
void check_gradients(const std::vector<Case>& cases);
void check_backends(const std::vector<Case>& cases);
void check_repeat(const std::vector<Case>& cases);

// Defines the three tests of a stem; `cases` is the function that returns its cases.
#define COMERA_TEST_CASES(stem, cases)                                                                   \
  TEST_CASE(stem ": gradients by the complex step") { comera::kernels::test::check_gradients(cases()); } \
  TEST_CASE(stem ": every backend within the derived bound of the reference") {                          \
    comera::kernels::test::check_backends(cases());                                                      \
  }                                                                                                      \
  TEST_CASE(stem ": the same bytes again and for any number of threads") {                               \
    comera::kernels::test::check_repeat(cases());                                                        \
  }

}  // namespace comera::kernels::test
