#include "lib/layers/activations/offloaded.h"

#include <algorithm>
#include <bitset>
#include <cstdlib>
#include <deque>
#include <vector>

#include "kernels/host_copy.h"
#include "lib/core/error.h"
#include "lib/core/units.h"

namespace comera::layers {
namespace {

using kernels::CopyTo;

// Pinned memory of a device, or plain memory of the host.
class HostMemory {
 public:
  // True if memory of an earlier size was replaced.
  bool grow(const kernels::Backend& backend, std::size_t bytes) {
    if (bytes <= bytes_) return false;
    const bool moves = data_ != nullptr;
    data_.reset();
    const bool pinned = backend.device.allocate_pinned != nullptr;
    data_ = {static_cast<std::byte*>(pinned ? backend.device.allocate_pinned(bytes) : std::malloc(bytes)),
             pinned ? backend.device.release_pinned : std::free};
    bytes_ = data_ ? bytes : 0;
    if (!data_)
      fail_run(
          "[memory] {} of pinned host memory for --activations offload cannot be allocated; use a smaller "
          "--offload-memory, a smaller batch, or cheap",
          format_bytes(bytes));
    return moves;
  }
  std::byte* data() const { return data_.get(); }

 private:
  std::unique_ptr<std::byte, void (*)(void*)> data_{nullptr, nullptr};
  std::size_t bytes_ = 0;
};

// Tickets of the copies in one direction.
class Tickets {
 public:
  int take() {
    int ticket = 0;
    while (ticket < kernels::copy_tickets && used_[static_cast<std::size_t>(ticket)]) ++ticket;
    COMERA_CHECK(ticket < kernels::copy_tickets);
    used_.set(static_cast<std::size_t>(ticket));
    return ticket;
  }
  void give_back(int ticket) { used_.reset(static_cast<std::size_t>(ticket)); }
  void clear() { used_.reset(); }

 private:
  std::bitset<kernels::copy_tickets> used_;
};

constexpr int none = -1;

// A tensor that the backward reads.
struct Entry {
  int tensor = none;      // its number
  int readers = 0;        // that have not released it
  bool goes_out = false;  // has a place in host memory
  std::size_t place = 0, end = 0;
  Tensor device;  // empty: it is in host memory alone
  Shape shape;
  DType dtype = DType::f32;
  int out_ticket = none, in_ticket = none;  // of copies that are not joined
};

// The entries of a forward and backward, in the order in which they were kept. The same calls give the same schedule,
// so a replay runs what was recorded.
class Schedule {
 public:
  explicit Schedule(const OffloadSettings& settings) : settings_(settings) {}

  void begin() {
    entries_.clear(), leaving_.clear();
    for (Tickets& tickets : tickets_) tickets.clear();
    offered_ = sent_ = 0, top_ = 0;
  }

  std::size_t keep(Walk& walk, const Tensor& tensor) {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].tensor == tensor.id) return ++entries_[i].readers, i;
    Entry& entry = entries_.emplace_back();
    entry.tensor = tensor.id, entry.readers = 1, entry.shape = tensor.shape, entry.dtype = tensor.dtype;
    entry.device = walk.keep(tensor);
    const auto bytes = static_cast<double>(tensor.bytes());
    offered_ += bytes;
    if (sent_ + bytes <= share_ * offered_) send(walk, entry, tensor.bytes());
    return entries_.size() - 1;
  }

  Tensor read(Walk& walk, std::size_t index) {
    fetch(walk, index);
    std::int64_t ahead = 0;
    for (std::size_t i = index; i-- > 0 && ahead < settings_.depth;)
      if (entries_[i].goes_out && entries_[i].readers > 0) fetch(walk, i), ++ahead;
    join(walk, CopyTo::device, entries_[index].in_ticket);
    return walk.keep(entries_[index].device);
  }

  void release(Walk& walk, std::size_t index) {
    Entry& entry = entries_[index];
    if (--entry.readers > 0) return;
    std::erase(leaving_, index);
    join(walk, CopyTo::host, entry.out_ticket);
    join(walk, CopyTo::device, entry.in_ticket);
    if (!entry.device.empty()) walk.drop(entry.device);
    // Values of a block that runs again take the places of those that the backward has released.
    top_ = 0;
    for (const Entry& one : entries_)
      if (one.goes_out && one.readers > 0) top_ = std::max(top_, one.end);
  }

  void set_share(double share) { share_ = share; }
  double offered() const { return offered_; }
  bool allocate(const kernels::Backend& backend) { return memory_.grow(backend, bytes_); }

 private:
  std::byte* place(const Entry& entry) const {
    return memory_.data() ? memory_.data() + entry.place : static_cast<std::byte*>(plan::unbound);
  }

  // The last two layers need no copy: what is still on its way when it is read is on the device.
  void send(Walk& walk, Entry& entry, std::size_t bytes) {
    entry.goes_out = true, entry.place = top_, entry.end = top_ + plan::aligned(bytes);
    top_ = entry.end, bytes_ = std::max(bytes_, top_);
    sent_ += static_cast<double>(bytes);
    entry.out_ticket = tickets_[static_cast<int>(CopyTo::host)].take();
    walk.run(walk.backend().host_copy, kernels::HostCopy{.direction = CopyTo::host,
                                                         .ticket = entry.out_ticket,
                                                         .to = place(entry),
                                                         .from = entry.device.data,
                                                         .bytes = bytes});
    leaving_.push_back(entries_.size() - 1);
    if (std::ssize(leaving_) <= settings_.depth) return;
    Entry& oldest = entries_[leaving_.front()];
    leaving_.pop_front();
    join(walk, CopyTo::host, oldest.out_ticket);
    walk.drop(oldest.device);
  }

  void fetch(Walk& walk, std::size_t index) {
    Entry& entry = entries_[index];
    if (!entry.device.empty()) return;
    entry.device = walk.make("fetched", entry.shape, entry.dtype);
    entry.in_ticket = tickets_[static_cast<int>(CopyTo::device)].take();
    walk.run(walk.backend().host_copy, kernels::HostCopy{.direction = CopyTo::device,
                                                         .ticket = entry.in_ticket,
                                                         .to = entry.device.data,
                                                         .from = place(entry),
                                                         .bytes = entry.device.bytes()});
  }

  void join(Walk& walk, CopyTo direction, int& ticket) {
    if (ticket == none) return;
    walk.run(walk.backend().host_join, kernels::HostJoin{direction, ticket});
    tickets_[static_cast<int>(direction)].give_back(ticket);
    ticket = none;
  }

  OffloadSettings settings_;
  std::vector<Entry> entries_;
  std::deque<std::size_t> leaving_;  // entries that are on their way to the host, oldest first
  Tickets tickets_[2];
  double share_ = 1, offered_ = 0, sent_ = 0;
  std::size_t top_ = 0, bytes_ = 0;  // of host memory: of the current step, of the largest one
  HostMemory memory_;
};

class Offloaded final : public Saved {
 public:
  Tensor read(Walk& walk) override { return schedule->read(walk, entry); }
  void release(Walk& walk) override { schedule->release(walk, entry); }

  Schedule* schedule = nullptr;
  std::size_t entry = 0;
};

class OffloadKeeper final : public Keeper {
 public:
  explicit OffloadKeeper(const OffloadSettings& settings) : settings_(settings), schedule_(settings) {}

  void begin(const kernels::StepScalars*) override { schedule_.begin(); }

  void keep(Walk& walk, const Tensor& tensor, Use, Slot& slot) override {
    Offloaded& saved = object_in<Offloaded>(slot);
    saved.schedule = &schedule_;
    saved.entry = schedule_.keep(walk, tensor);
  }

  bool studies() const override { return !studied_; }
  // The whole forward is one block here: the blocks are equal, and the values of the last layers stay by the schedule.
  void studied(double forward_flops) override {
    studied_ = true;
    schedule_.set_share(offload_share({.others = schedule_.offered(),
                                       .bandwidth = settings_.bandwidth,
                                       .seconds = forward_flops / settings_.speed,
                                       .host_bytes = settings_.host_bytes,
                                       .blocks = 3}));
  }
  bool allocate(const kernels::Backend& backend) override { return schedule_.allocate(backend); }

 private:
  OffloadSettings settings_;
  Schedule schedule_;
  bool studied_ = false;
};

}  // namespace

double offload_share(const OffloadLimits& limits) {
  double bytes = limits.bandwidth * limits.seconds;
  if (limits.blocks > 2) bytes = std::min(bytes, limits.host_bytes / static_cast<double>(limits.blocks - 2));
  const double left = bytes - limits.always;
  if (limits.others <= 0) return left >= 0 ? 1 : 0;
  return std::clamp(left / limits.others, 0.0, 1.0);
}

std::unique_ptr<Keeper> make_offload_keeper(const OffloadSettings& settings) {
  return std::make_unique<OffloadKeeper>(settings);
}

}  // namespace comera::layers
