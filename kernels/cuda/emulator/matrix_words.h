// The emulator's asynchronous copies and matrix instructions (tensor_tile.h). The lanes of a warp exchange their
// operands.
#pragma once

#include <vector>

#include "kernels/cuda/common/element.h"
#include "kernels/cuda/emulator/races.h"

namespace comera::kernels::cuda::emulator {

// A copy is executed as late as a GPU may do it: when its group is waited for.
struct Copies {
  struct Copy {
    void* to;
    const void* from;
    bool valid;
  };
  std::vector<std::vector<Copy>> groups;
  std::vector<Copy> open;
};

inline int thread_of_block() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

inline Copies& own_copies() {
  static std::vector<Copies> all(1024);
  return all[static_cast<std::size_t>(thread_of_block())];
}

// A GPU copies 16 bytes only between addresses that are multiples of 16; otherwise the kernel fails, and here the
// test.
inline void require_aligned(const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) __builtin_trap();
}

inline void copy_async(void* shared, const void* from, bool valid) {
  require_aligned(shared), require_aligned(from);
  own_copies().open.push_back({shared, from, valid});
}
inline void commit_copies() {
  Copies& own = own_copies();
  own.groups.push_back(std::move(own.open));
  own.open.clear();
}
template <int latest>
void wait_for_copies() {
  std::vector<std::vector<Copies::Copy>>& groups = own_copies().groups;
  while (static_cast<int>(groups.size()) > latest) {
    for (const Copies::Copy& copy : groups.front())
      copy.valid ? std::memcpy(copy.to, copy.from, 16) : std::memset(copy.to, 0, 16);
    groups.erase(groups.begin());
  }
}

// Calls read() with the operands of all lanes of the warp.
template <class Held, class Read>
void show_all(const Held& own, Read read) {
  static Held held[1024];
  Held lanes[32];
  {
    const races::Unseen unseen;
    Held* const of_warp = held + thread_of_block() / 32 * 32;
    of_warp[lane()] = own;
    meet_warp(0xFFFFFFFFu);
    std::copy_n(of_warp, 32, lanes);
    meet_warp(0xFFFFFFFFu);
  }
  read(lanes);
}

inline unsigned pair_of(Bf16 low, Bf16 high) { return static_cast<unsigned>(high.bits) << 16 | low.bits; }
inline float element_of(unsigned pair, int index) {
  return to_float(Bf16{static_cast<std::uint16_t>(pair >> (16 * index))});
}

inline void load_blocks(unsigned (&block)[4], const Bf16* row) {
  require_aligned(row);
  show_all<const Bf16*>(row, [&](const Bf16* const* rows) {
    const int y = lane() / 4, x = lane() % 4 * 2;
    for (int i = 0; i < 4; ++i) block[i] = pair_of(rows[8 * i + y][x], rows[8 * i + y][x + 1]);
  });
}
inline void load_blocks_transposed(unsigned (&block)[4], const Bf16* row) {
  require_aligned(row);
  show_all<const Bf16*>(row, [&](const Bf16* const* rows) {
    const int y = lane() / 4, x = lane() % 4 * 2;
    for (int i = 0; i < 4; ++i) block[i] = pair_of(rows[8 * i + x][y], rows[8 * i + x + 1][y]);
  });
}

struct Operands {
  unsigned a[4], b[2];
};

// PTX, section on mma.m16n8k16. Register i of a holds row lane / 4 + 8 (i % 2), columns 2 (lane % 4) + 8 (i / 2) and
// the next. Register i of b holds rows 2 (lane % 4) + 8 i and the next, column lane / 4.
inline void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  show_all<Operands>({{a[0], a[1], a[2], a[3]}, {b0, b1}}, [&](const Operands* lanes) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
      for (int k = 0; k < 16; ++k) {
        const Operands &left = lanes[row % 8 * 4 + k % 8 / 2], &right = lanes[column * 4 + k % 8 / 2];
        c[i] += element_of(left.a[row / 8 + k / 8 * 2], k % 2) * element_of(right.b[k / 8], k % 2);
      }
    }
  });
}

}  // namespace comera::kernels::cuda::emulator
