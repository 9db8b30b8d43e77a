// A batch is a set of named tensors in host memory. The names are those of Hugging Face models, if they have one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/core/tensor.h"

namespace comera::data {

// Names and element types (B sequences padded to T, a multiple of 8):
//   input_ids       i32 [B, T]   padded with the tokenizer's pad id
//   token_type_ids  i32 [B, T]   0 for the first text, 1 for the second
//   lengths         i32 [B]      tokens of each sequence, without padding
//   samples         i64 [B]      global sample number: position in the data set + epoch * its size; key of the dropout
//                                masks
//                                (pairs: B / 2 pairs, first all first texts, then all second ones)
//   labels          i32 [B]      classify, image: index of the label; -1 if unknown
//   scores          f32 [B]      regression: the number to predict; NaN if unknown
//   label_sets      i32 [B * L]  multilabel: 1 if the text has the label, else 0; -1 if its labels are unknown
//   word_labels     i32 [B, T]   tag: index of the label of the word that begins here; -2 if it is unknown, -1 for
//                                other tokens
//   partners        i32 [B / 2]  pairs: 0, 1, 2, ...: the second text that belongs to each first text
//   masked_index    i32 [P]      mlm: row in [0, B*T) of each predicted position, -1 for unused slots; P = capacity
//                                fixed by (B, T)
//   masked_targets  i32 [P]      mlm: the id to predict, -1 for unused slots
//   targets         i32 [B, T]   clm: the id that follows, -1 if none is predicted
//   key_begin       i32 [B, T]   clm: position in the sequence at which the token's document begins
//   position_ids    i32 [B, T]   clm: position in that document
//   pixel_values    f32 [B, channels, S, S]  image: normalised pixels
class Batch {
 public:
  std::int64_t sequences = 0;  // B
  std::int64_t length = 0;     // T
  // Divisor of the loss: examples, decisions (multilabel), words (tag), pairs or predicted tokens.
  std::int64_t counted = 0;
  std::int64_t tokens = 0;  // without padding

  // Adds a tensor, or reuses the one of that name. Its contents are unspecified.
  TensorView add(const char* name, DType dtype, Shape shape);
  // The tensor of that name. It is a bug if there is none (see has()).
  TensorView operator[](const char* name) const;
  bool has(const char* name) const;

 private:
  struct Item {
    std::string name;
    std::vector<std::int64_t> storage;  // 8-byte aligned
    TensorView view;
  };
  std::vector<std::unique_ptr<Item>> items_;
};

// P for a batch of B x T: the largest number of tokens that mlm masks, so that shapes depend on (B, T) alone.
constexpr std::int64_t masked_capacity(std::int64_t sequences, std::int64_t length, double probability) {
  const auto per_sequence = static_cast<std::int64_t>(probability * static_cast<double>(length) + 0.5);
  return sequences * (per_sequence < 1 ? 1 : per_sequence);
}

}  // namespace comera::data
