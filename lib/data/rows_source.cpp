// Window source for labelled rows: windows of a permutation of the indexed table.
#include <algorithm>

#include "lib/core/error.h"
#include "lib/data/random.h"
#include "lib/data/window.h"

namespace comera::data {
namespace {

class RowsSource final : public WindowSource {
 public:
  using WindowSource::WindowSource;

  Window build(const LoaderState& start) override {
    const std::int64_t size = dataset_->size();
    Window window;
    window.start = window.next = start;
    window.task = dataset_->spec().task;
    window.table = &dataset_->table;
    window.start.step = steps_before(step_size(), start.window);
    const std::int64_t begin = start.samples - start.epoch * size;
    if (begin < 0 || begin >= size)
      fail_input("[data] the checkpoint's position lies outside the {} rows; the data has changed", size);
    const std::int64_t count = std::min(size - begin, step_size().sequences * window_steps(step_size(), start.window));

    const Permutation order(size, Random(options_.seed, static_cast<std::uint64_t>(start.epoch), Purpose::rows));
    std::vector<Ids> ids(static_cast<std::size_t>(count)), tags(ids.size());
    window.sequences.resize(static_cast<std::size_t>(count));
    in_parts(options_.threads, count, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        check_cancelled();
        const std::int64_t row = options_.shuffle ? order(begin + i) : begin + i;
        const auto at = static_cast<std::size_t>(i);
        encode(row, ids[at], tags[at], window.sequences[at]);
        window.sequences[at].sample = row + start.epoch * size;
      }
    });
    std::size_t tokens = 0;
    for (const Ids& one : ids) tokens += one.size();
    window.ids.reserve(tokens);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      window.sequences[i].begin = window.ids.size();
      window.ids.insert(window.ids.end(), ids[i].begin(), ids[i].end());
      window.tags.insert(window.tags.end(), tags[i].begin(), tags[i].end());
    }
    arrange(window);
    advance(window, begin + count == size, count);
    return window;
  }

 private:
  void advance(Window& window, bool last, std::int64_t count) const {
    window.next.samples += count;
    window.next.epoch += last;
    window.next.window = last ? 0 : window.start.window + 1;
    window.next.step = steps_before(step_size(), window.next.window);
  }

  void encode(std::int64_t row, Ids& ids, Ids& tags, Sequence& sequence) const {
    switch (dataset_->spec().task) {
      case Task::tag: return encode_words(row, ids, tags, sequence);
      case Task::pairs: return encode_apart(row, ids, sequence);
      default: return encode_row(row, ids, sequence);
    }
  }

  // Encodes [CLS] words [SEP]. The first token of a word has its label: -2 if the row has none. A word without tokens,
  // such as a zero-width space, is an unknown one, so that every word up to the longest sequence has an answer.
  void encode_words(std::int64_t row, Ids& ids, Ids& tags, Sequence& sequence) const {
    const Specials& specials = dataset_->tokenizer().specials();
    const auto most = static_cast<std::size_t>(dataset_->spec().max_length - 1);
    const std::vector<std::string_view> labels = words_of(dataset_->table.text(row, 1));
    ids.push_back(specials.cls);
    tags.push_back(-1);
    std::size_t word = 0;
    for_each_part(dataset_->table.text(row, 0), word_blanks, [&](std::string_view text) {
      const std::size_t begin = ids.size(), number = word++;
      if (begin >= most) return;
      dataset_->tokenizer().encode(number == 0 ? std::string(text) : " " + std::string(text), ids);
      if (ids.size() == begin) ids.push_back(specials.unknown >= 0 ? specials.unknown : specials.sep);
      ids.resize(std::min(ids.size(), most));
      tags.resize(ids.size(), -1);
      tags[begin] = labels.empty() ? -2 : dataset_->table.find_label(labels[number]);
    });
    ids.push_back(specials.sep);
    tags.push_back(-1);
    sequence.length = sequence.second = static_cast<std::int32_t>(ids.size());
  }

  // Encodes [CLS] first [SEP] and [CLS] second [SEP], one after the other.
  void encode_apart(std::int64_t row, Ids& ids, Sequence& sequence) const {
    const Specials& specials = dataset_->tokenizer().specials();
    const auto most = static_cast<std::size_t>(dataset_->spec().max_length - 1);
    for (const int which : {0, 1}) {
      sequence.second = static_cast<std::int32_t>(ids.size());
      Ids text{specials.cls};
      dataset_->tokenizer().encode_start(dataset_->table.text(row, which), most, text);
      text.resize(std::min(text.size(), most));
      text.push_back(specials.sep);
      ids.insert(ids.end(), text.begin(), text.end());
    }
    sequence.length = static_cast<std::int32_t>(ids.size());
  }

  // Encodes [CLS] first [SEP], or [CLS] first [SEP] second [SEP], with token type 1 from the second text on. RoBERTa
  // has two [SEP] between the texts and one token type.
  void encode_row(std::int64_t row, Ids& ids, Sequence& sequence) const {
    const Tokenizer& tokenizer = dataset_->tokenizer();
    const bool pair = dataset_->spec().text.size() > 1;
    ids.push_back(tokenizer.specials().cls);
    const auto enough = static_cast<std::size_t>(dataset_->spec().max_length);
    // Of texts beyond 64 KiB, which are tokenised in parts, only the tokens up to here count as their lengths.
    tokenizer.encode_start(dataset_->table.text(row, 0), enough, ids);
    auto first = static_cast<std::int64_t>(ids.size()) - 1;
    Ids other;
    if (pair) tokenizer.encode_start(dataset_->table.text(row, 1), enough, other);
    auto second = static_cast<std::int64_t>(other.size());
    const Specials& specials = tokenizer.specials();
    if (pair)
      trim_pair(dataset_->spec().max_length - 2 - specials.separators, first, second);
    else
      first = std::min(first, dataset_->spec().max_length - 2);
    ids.resize(static_cast<std::size_t>(first + 1));
    ids.insert(ids.end(), static_cast<std::size_t>(pair ? specials.separators : 1), specials.sep);
    sequence.second = static_cast<std::int32_t>(ids.size());
    if (pair) {
      ids.insert(ids.end(), other.begin(), other.begin() + second);
      ids.push_back(specials.sep);
    }
    sequence.length = static_cast<std::int32_t>(ids.size());
    if (!specials.second_type) sequence.second = sequence.length;
    sequence.label = dataset_->table.label(row);
    sequence.score = dataset_->table.score(row);
  }
};

}  // namespace

std::unique_ptr<WindowSource> rows_source(std::shared_ptr<const FileDataset> dataset, const LoaderOptions& options) {
  return std::make_unique<RowsSource>(std::move(dataset), options);
}

}  // namespace comera::data
