#include "lib/tt/modes.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "lib/core/error.h"
#include "lib/core/join.h"

namespace comera::tt {
namespace {

Sizes prime_factors(std::int64_t size) {
  Sizes factors;
  for (std::int64_t p = 2; p * p <= size; ++p)
    while (size % p == 0) {
      factors.push_back(p);
      size /= p;
    }
  if (size > 1) factors.push_back(size);
  return factors;
}

struct Search {
  std::int64_t size, low, high;
  int order;
  Sizes current, best;
  std::int64_t best_product = 0;

  // Visits non-increasing factors, so that each product is tried once.
  void visit(std::int64_t product, std::int64_t largest) {
    const int left = order - static_cast<int>(current.size());
    if (left == 1) return finish(product, largest);
    for (std::int64_t mode = largest; mode >= low; --mode) {
      current.push_back(mode);
      visit(product * mode, mode);
      current.pop_back();
    }
  }

  void finish(std::int64_t product, std::int64_t largest) {
    const std::int64_t mode = std::max((size + product - 1) / product, low);
    if (mode > largest) return;
    const std::int64_t padded = product * mode;
    if (best_product != 0 && padded >= best_product) return;
    best_product = padded;
    best = current;
    best.push_back(mode);
  }
};

constexpr std::int64_t largest_mode = std::int64_t{1} << 40;

// `text` is a part of `all`, which appears in the message.
Sizes parse_sizes(std::string_view text, const std::string& all, std::string_view separators) {
  Sizes sizes;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(separators));
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || next != word.data() + word.size() || size < 1 || size > largest_mode)
      fail_input(
          "[modes] '{}' is not a list of positive sizes; write the in modes and the out modes, like 12x8x8|8x8x12",
          all);
    sizes.push_back(size);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return sizes;
}

}  // namespace

std::int64_t product(const Sizes& sizes) {
  std::int64_t result = 1;
  for (std::int64_t size : sizes) result *= size;
  return result;
}

std::string to_string(const Sizes& sizes) { return join(sizes, " "); }

Sizes balanced_modes(std::int64_t size, int order) {
  Sizes factors = prime_factors(size);
  std::sort(factors.rbegin(), factors.rend());
  Sizes modes(order, 1);
  for (std::int64_t factor : factors) *std::min_element(modes.begin(), modes.end()) *= factor;
  std::sort(modes.rbegin(), modes.rend());
  return modes;
}

Sizes padded_modes(std::int64_t size, int order) {
  if (order == 1) return {size};
  const double side = std::pow(static_cast<double>(size), 1.0 / order);
  Search search{size,
                std::max<std::int64_t>(1, static_cast<std::int64_t>(side * 0.75)),
                static_cast<std::int64_t>(std::ceil(side * 1.4)),
                order,
                {},
                {}};
  search.visit(1, search.high);
  return search.best;
}

Sizes linear_modes(std::int64_t in, std::int64_t out, int order) {
  Sizes modes = balanced_modes(in, order);
  Sizes right = balanced_modes(out, order);
  modes.insert(modes.end(), right.rbegin(), right.rend());
  return modes;
}

Sizes table_modes(std::int64_t rows, std::int64_t columns, int order) {
  Sizes modes = padded_modes(rows, order);
  const Sizes right = balanced_modes(columns, order);
  modes.insert(modes.end(), right.begin(), right.end());
  return modes;
}

Sizes largest_ranks(const Sizes& entry_sizes) {
  const std::size_t count = entry_sizes.size();
  Sizes ranks(count + 1, 1);
  double left = 1, total = 1;
  for (std::int64_t size : entry_sizes) total *= static_cast<double>(size);
  for (std::size_t k = 1; k < count; ++k) {
    left *= static_cast<double>(entry_sizes[k - 1]);
    ranks[k] = static_cast<std::int64_t>(std::min({left, total / left, 1e18}));
  }
  return ranks;
}

Sizes uniform_ranks(const Sizes& entry_sizes, std::int64_t rank, const std::string& what) {
  const std::size_t count = entry_sizes.size();
  const Sizes largest = largest_ranks(entry_sizes);
  if (rank < 1) fail_input("{}: rank {} is not positive; use --rank 1 or more", what, rank);
  Sizes ranks(count + 1, 1);
  for (std::size_t k = 1; k < count; ++k) {
    const bool border = count > 2 && (k == 1 || k == count - 1);
    ranks[k] = border ? std::min(rank, largest[k]) : rank;
    if (ranks[k] > largest[k])
      fail_input("{}: rank {} exceeds the largest possible {} at bond {}; use rank {} or fewer", what, rank, largest[k],
                 k, largest[k]);
  }
  return ranks;
}

std::int64_t core_parameters(const Sizes& entry_sizes, const Sizes& ranks) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < entry_sizes.size(); ++k) {
    if (ranks[k + 1] == 0) return 0;
    sum += ranks[k] * entry_sizes[k] * ranks[k + 1];
  }
  return sum;
}

std::int64_t rank_entries(const Sizes& ranks) {
  std::int64_t sum = 0;
  for (std::size_t k = 1; k + 1 < ranks.size(); ++k) {
    if (ranks[k] == 0) return 0;
    sum += ranks[k];
  }
  return sum;
}

Sizes parse_modes(const std::string& text) {
  Sizes modes = parse_sizes(text, text, "x,| ");
  if (modes.empty() || modes.size() % 2 != 0)
    fail_input("[modes] '{}' has {} sizes; write as many in modes as out modes, like 12x8x8|8x8x12", text,
               modes.size());
  return modes;
}

Sides parse_sides(const std::string& text) {
  const std::size_t bar = text.find('|');
  if (bar == std::string::npos)
    fail_input("[modes] '{}' lacks the '|' between the modes of the input and of the output; write them like 24x16|384",
               text);
  Sides sides{parse_sizes(std::string_view(text).substr(0, bar), text, "x,"),
              parse_sizes(std::string_view(text).substr(bar + 1), text, "x,")};
  if (sides.in.empty() || sides.out.empty())
    fail_input("[modes] '{}' has no sizes on one side of the '|'; write them like 24x16|384", text);
  return sides;
}

}  // namespace comera::tt
