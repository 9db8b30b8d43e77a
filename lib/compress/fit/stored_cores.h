// The cores of a chain as the file stores them: floating-point numbers, or numbers on a grid.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lib/io/tt_format.h"
#include "lib/tt/chain.h"

namespace comera::compress {

// The bytes of one core of a chain whose dense weight was stored as `dense`. `numbers` become those that the bytes
// stand for.
std::vector<std::byte> store_core(std::span<float> numbers, const io::ChainSpec& spec, io::StoredType dense);

// The columns of the left factor of a pair get the same largest number: a block of 32 numbers with one scale then has
// numbers of the same size, whatever the singular values are. Other chains stay.
void balance_columns(tt::Chain& chain);
// The bytes of every core. `chain` gets the numbers that they stand for.
std::vector<std::vector<std::byte>> store_cores(tt::Chain& chain, const io::ChainSpec& spec, io::StoredType dense);
// The exact rows become the numbers that the type has for them.
void round_exact_rows(tt::Chain& chain, io::StoredType type);

}  // namespace comera::compress
