// Measures predicted classes and sets of labels against the known ones.
#pragma once

#include <cstdint>
#include <vector>

namespace comera::engine {

using Confusion = std::vector<std::vector<std::int64_t>>;  // [label][predicted]

// Decisions for one label, or for all labels together.
struct Decisions {
  std::int64_t right = 0, missed = 0, wrong = 0;  // true positives, false negatives, false positives
  // 2 right / (2 right + missed + wrong); 0 if that is 0 / 0.
  double f1() const;
};

struct ClassMetrics {
  // Two classes: of the second one. More: the mean over the classes that are a label or a prediction (macro F1).
  double f1 = 0;
  // Matthews' correlation in its form for any number of classes (Gorodkin 2004, Computational Biology and Chemistry
  // 28); 0 if all labels or all predictions are the same class.
  double matthews = 0;
};
ClassMetrics class_metrics(const Confusion& confusion);

// Any number of labels per example.
struct SetMetrics {
  double micro_f1 = 0, macro_f1 = 0;  // over all decisions; the mean over labels
  double exact = 0;                   // share of examples whose set is right
};
class SetScores {
 public:
  // One example: by label, 1 or 0.
  void add(const std::vector<std::uint8_t>& known, const std::vector<std::uint8_t>& predicted);
  SetMetrics metrics() const;
  const std::vector<Decisions>& by_label() const { return labels_; }

 private:
  std::vector<Decisions> labels_;
  std::int64_t examples_ = 0, exact_ = 0;
};

}  // namespace comera::engine
