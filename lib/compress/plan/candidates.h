// Finds the weights of a folder that may become chains.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/io/tt_format.h"

namespace comera::compress {

// One weight: a linear layer or a table [rows x columns]. Linear layers are treated as [in x out], whatever their order
// in the file.
struct Candidate {
  std::string name;    // without ".weight"; the full name if it ends otherwise ("in_proj_weight")
  std::string tensor;  // name in the file
  bool table = false;
  bool conv1d = false;  // the file stores [in, out] (GPT-2's Conv1D)
  io::StoredType type = io::StoredType::F32;
  io::FileShape shape;                 // in file order
  std::vector<std::string> tied = {};  // other tensors of the file with the same numbers; they are not written
  bool decodes = false;                // a table that nobody looks up: its rows give the logits of words
  bool also_decodes = false;           // a table that is looked up, and its rows also give the logits of words

  bool bare() const { return name == tensor; }
  std::int64_t in() const { return table || conv1d ? shape[0] : shape[1]; }   // inputs, or rows of a table
  std::int64_t out() const { return table || conv1d ? shape[1] : shape[0]; }  // outputs, or columns of a table
  std::int64_t elements() const { return shape[0] * shape[1]; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(elements()) * io::size_of(type); }
};

// The patterns of --include and --exclude. They match the name with or without ".weight".
struct Choice {
  std::vector<std::string> include, exclude;
  // If set: these weights are tables, all others are linear layers [out, in].
  std::optional<std::set<std::string>> tables = {};
  bool heads = false;  // also the decoder of words of a model whose decoder is not its word table
};
bool matches(const std::vector<std::string>& patterns, const std::string& name);

// Sorted by weight name. For known architectures: the linear layers and the word embedding table; a decoder of words
// that is not tied is a table too, with a row for each word. For others: the matrices that --include names, also those
// whose names do not end in ".weight". InputError: a pattern that matches nothing, an unknown architecture without
// --include, tied weights that differ, no candidate.
std::vector<Candidate> find_candidates(const io::ModelFolder& folder, const Choice& choice);

}  // namespace comera::compress
