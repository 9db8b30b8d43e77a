// Items of a call that do not depend on each other, such as chains or matrices, dealt to lanes that run side by side. A
// lane has memory for the largest item.
#pragma once

#include "kernels/cpu/common/workspace.h"
#include "kernels/host/thread_pool.h"

namespace comera::kernels::COMERA_CPU {

class ItemLanes {
 public:
  // bytes_of(i): the memory that item i needs.
  template <class BytesOf>
  ItemLanes(int count, const BytesOf& bytes_of) : count_(count) {
    for (int i = 0; i < count; ++i) bytes_ = max(bytes_, bytes_of(i));
  }

  std::size_t workspace_bytes() const { return static_cast<std::size_t>(lanes()) * bytes_; }

  // Calls work(i, memory) for each item. The workspace of the context has workspace_bytes() at least.
  template <class Work>
  void run(const Context& context, const Work& work) const {
    parallel_for(context, lanes(), [&](std::int64_t lane) {
      char* const memory = static_cast<char*>(context.workspace) + static_cast<std::size_t>(lane) * bytes_;
      for (int i = static_cast<int>(lane); i < count_; i += lanes()) work(i, memory);
    });
  }

 private:
  static constexpr int most_lanes = 8;
  int lanes() const { return min(count_, most_lanes); }

  int count_;
  std::size_t bytes_ = 0;
};

}  // namespace comera::kernels::COMERA_CPU
