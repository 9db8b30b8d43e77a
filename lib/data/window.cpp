#include "lib/data/window.h"

#include <algorithm>
#include <exception>

#include "lib/core/thread.h"
#include "lib/data/random.h"

namespace comera::data {

std::int64_t window_steps(StepSize step, std::int64_t window) {
  constexpr std::int64_t first_sequences = 512, most_sequences = 8192, most_tokens = 1 << 20;
  const std::int64_t sequences = std::min(most_sequences, most_tokens / step.length);
  const std::int64_t most = std::max<std::int64_t>(1, sequences / step.sequences);
  const std::int64_t first = std::max<std::int64_t>(1, first_sequences / step.sequences);
  return window >= 16 ? most : std::min(most, first << window);
}

std::int64_t steps_before(StepSize step, std::int64_t window) {
  constexpr std::int64_t growing = 16;
  std::int64_t steps = 0;
  for (std::int64_t i = 0; i < std::min(window, growing); ++i) steps += window_steps(step, i);
  return steps + std::max<std::int64_t>(0, window - growing) * window_steps(step, growing);
}

void WindowSource::arrange(Window& window) const {
  if (!options_.shuffle) return;
  const auto seed = options_.seed;
  const auto epoch = static_cast<std::uint64_t>(window.start.epoch);
  const auto number = static_cast<std::uint64_t>(window.start.window);
  const auto count = static_cast<std::int64_t>(window.sequences.size());

  const Permutation mixed(count, Random(seed, epoch, Purpose::sequences), number);
  std::vector<Sequence> sorted(window.sequences.size());
  for (std::int64_t i = 0; i < count; ++i)
    sorted[static_cast<std::size_t>(i)] = window.sequences[static_cast<std::size_t>(mixed(i))];
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Sequence& a, const Sequence& b) { return a.length < b.length; });

  const std::int64_t size = step_size().sequences, full = count / size;
  if (full == 0) return window.sequences.swap(sorted);
  const Permutation steps(full, Random(seed, epoch, Purpose::steps), number);
  auto out = window.sequences.begin();
  for (std::int64_t i = 0; i < full; ++i) out = std::copy_n(sorted.begin() + steps(i) * size, size, out);
  std::copy(sorted.begin() + full * size, sorted.end(), out);
}

void in_parts(int threads, std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t parts = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(1, count));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(parts));
  const auto run = [&](std::int64_t part) {
    try {
      body(count * part / parts, count * (part + 1) / parts);
    } catch (...) {
      errors[static_cast<std::size_t>(part)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;  // the destructor joins the started threads before an error leaves this scope
    for (std::int64_t part = 1; part < parts; ++part) others.push_back(start_thread([&run, part] { run(part); }));
    run(0);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void trim_pair(std::int64_t room, std::int64_t& first, std::int64_t& second) {
  if (first + second <= room) return;
  std::int64_t &shorter = first > second ? second : first, &longer = first > second ? first : second;
  longer = std::max(shorter, room - shorter);
  if (shorter + longer <= room) return;
  shorter = room / 2;
  longer = room - shorter;
}

}  // namespace comera::data
