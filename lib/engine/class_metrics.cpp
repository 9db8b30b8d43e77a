#include "lib/engine/class_metrics.h"

#include <algorithm>
#include <cmath>

namespace comera::engine {
namespace {

double ratio(double part, double all) { return all > 0 ? part / all : 0; }

std::vector<Decisions> decisions_of(const Confusion& confusion) {
  std::vector<Decisions> classes(confusion.size());
  for (std::size_t label = 0; label < confusion.size(); ++label)
    for (std::size_t predicted = 0; predicted < confusion.size(); ++predicted) {
      const std::int64_t count = confusion[label][predicted];
      if (label == predicted) {
        classes[label].right += count;
      } else {
        classes[label].missed += count;
        classes[predicted].wrong += count;
      }
    }
  return classes;
}

// cov(t, p) / sqrt(cov(t, t) cov(p, p)) with t_k labels and p_k predictions of class k:
// (c s - sum t_k p_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)), c right of s examples.
double matthews_of(const std::vector<Decisions>& classes) {
  double right = 0, all = 0, both = 0, labels = 0, predictions = 0;
  for (const Decisions& one : classes) {
    const auto label = static_cast<double>(one.right + one.missed),
               predicted = static_cast<double>(one.right + one.wrong);
    right += static_cast<double>(one.right);
    all += label;
    both += label * predicted;
    labels += label * label;
    predictions += predicted * predicted;
  }
  return ratio(right * all - both, std::sqrt((all * all - predictions) * (all * all - labels)));
}

}  // namespace

double Decisions::f1() const {
  return ratio(2 * static_cast<double>(right), static_cast<double>(2 * right + missed + wrong));
}

ClassMetrics class_metrics(const Confusion& confusion) {
  const std::vector<Decisions> classes = decisions_of(confusion);
  ClassMetrics metrics{0, matthews_of(classes)};
  if (classes.size() == 2) {
    metrics.f1 = classes[1].f1();
    return metrics;
  }
  double used = 0;
  for (const Decisions& one : classes)
    if (one.right + one.missed + one.wrong > 0) metrics.f1 += one.f1(), ++used;
  metrics.f1 = ratio(metrics.f1, used);
  return metrics;
}

void SetScores::add(const std::vector<std::uint8_t>& known, const std::vector<std::uint8_t>& predicted) {
  labels_.resize(known.size());
  ++examples_;
  exact_ += known == predicted;
  for (std::size_t label = 0; label < known.size(); ++label) {
    labels_[label].right += known[label] && predicted[label];
    labels_[label].missed += known[label] && !predicted[label];
    labels_[label].wrong += !known[label] && predicted[label];
  }
}

SetMetrics SetScores::metrics() const {
  Decisions all;
  double sum = 0;
  for (const Decisions& one : labels_) {
    all.right += one.right, all.missed += one.missed, all.wrong += one.wrong;
    sum += one.f1();
  }
  return {all.f1(), ratio(sum, static_cast<double>(labels_.size())),
          ratio(static_cast<double>(exact_), static_cast<double>(examples_))};
}

}  // namespace comera::engine
