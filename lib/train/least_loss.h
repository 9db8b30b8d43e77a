// The rank entries without which a model of a given size has lost least.
#pragma once

#include "lib/train/chain_sizes.h"

namespace comera::train {

// `importances` (importance.h) stand in the places of the diagonals. Entries leave one by one, each time the one with
// the least loss per parameter that it frees, both as the chain then is:
//   freed, bond k:  R_{k-1} s_k + s_{k+1} R_{k+1} (+ per_entry); the whole chain with the last entry of a bond
//   loss, entry i:  I_k[i] * product over the chain's other bonds of (importance left / importance at the beginning)
// The product keeps a chain of many bonds from counting once per bond: what one bond has lost, the others cannot lose
// again. Without it a table, which has one bond, is cut too far.
//
// An entry may be much larger than what is left to free: one of a table has tens of thousands of parameters. Then
// the sizes with and without it are both filled with smaller entries, and the one that loses less is taken.
//
// Returns what stays if entries leave on the way to `target` until the size is at most `allowed` (in the unit of
// target.size). No entry leaves that the target would keep, and none of a floor (ChainDiagonals::floor).
Kept cut_with_least_loss(const std::vector<ChainDiagonals>& importances, const SizeTarget& target, double allowed);

}  // namespace comera::train
