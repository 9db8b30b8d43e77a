// The numbers of a chain as the file stores them: in a floating-point type, or cores on a grid. Each call returns the
// bytes, and its numbers become those that the bytes stand for.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/io/tt_format.h"
#include "lib/tt/chain.h"

namespace comera::compress {

std::vector<std::byte> store_numbers(std::span<float> numbers, io::StoredType type);
// One core of a chain whose dense weight was stored as `dense`.
std::vector<std::byte> store_core(std::span<float> numbers, const io::ChainSpec& spec, io::StoredType dense);

// The columns of the left factor of a pair get the same largest number: a block of 32 numbers with one scale then has
// numbers of the same size, whatever the singular values are. Other chains stay.
void balance_columns(tt::Chain& chain);
// Every core.
std::vector<std::vector<std::byte>> store_cores(tt::Chain& chain, const io::ChainSpec& spec, io::StoredType dense);
std::vector<std::byte> store_exact_rows(tt::Chain& chain, io::StoredType type);

}  // namespace comera::compress
