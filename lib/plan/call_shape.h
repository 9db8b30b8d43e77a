// The sizes of a call as text, for the rows of a profile.
#pragma once

#include <cstdint>
#include <string>

namespace comera::plan {

template <class... Sizes>
std::string by(Sizes... sizes) {
  std::string text;
  ((text += (text.empty() ? "" : " x ") + std::to_string(sizes)), ...);
  return text;
}

// Such as "4096 x 768 -> 3072/32" (tokens, in, out/rank). Empty for calls with lists of tensors.
template <class Args>
std::string shape_of(const Args& a) {
  if constexpr (requires { a.shape.key_heads; }) {
    return by(a.shape.batch, a.shape.heads) + " of " + by(a.shape.queries, a.shape.keys, a.shape.head_size);
  } else if constexpr (requires { a.output[0].rank; }) {
    std::string text = by(a.tokens, a.in) + " ->";
    for (int i = 0; i < a.outputs; ++i) text += " " + by(a.output[i].out) + "/" + by(a.output[i].rank);
    return text;
  } else if constexpr (requires { a.tokens + a.in + a.out; }) {
    return by(a.tokens, a.in) + " -> " + by(a.out);
  } else if constexpr (requires { a.tokens + a.columns; }) {
    return by(a.tokens, a.columns);
  } else if constexpr (requires { a.sequences + a.length + a.columns; }) {
    return by(a.sequences, a.length, a.columns);
  } else if constexpr (requires { a.bags.tokens + a.rows + a.columns; }) {
    return by(a.bags.tokens) + " of " + by(a.rows, a.columns);
  } else if constexpr (requires { a.rows + a.columns; }) {
    return by(a.rows, a.columns);
  } else if constexpr (requires { a.tokens + a.heads + a.head_size; }) {
    return by(a.tokens, a.heads, a.head_size);
  } else if constexpr (requires { a.count + sizeof(a.x); }) {
    return by(a.count);
  } else {
    return "";
  }
}

// A copy with a ticket may not be repeated before it is joined.
template <class Args>
concept HasTicket = requires(const Args& a) {
  a.ticket;
};

}  // namespace comera::plan
