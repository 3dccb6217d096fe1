// A Metric is the mergeable state of a measurement: made from a batch, merged over batches and
// replicas, read at the end. Thread safety: a value; concurrent reads are safe.
//
// kind() and state() are all there is to it, so a metric can travel between tasks as numbers and be
// rebuilt by Metric::make. Sums are kept in double. Merging is addition: exact for counts below
// 2^53, and for other sums the result depends on the order of merging by rounding only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class Metric {
 public:
  // The state of `kind` ("mean", "accuracy"). Throws InvalidArgument for a kind that does not exist
  // (the kinds there are get listed) and for a state of another length.
  static Metric make(const std::string& kind, std::vector<double> state);

  const std::string& kind() const { return kind_; }
  // "mean" and "accuracy": the weighted sum, the sum of weights.
  const std::vector<double>& state() const;
  // Adds what `other` has seen. Throws InvalidArgument when the kinds differ.
  void merge(const Metric& other);
  // 0 when nothing was seen, as in Keras.
  double result() const;

  // A state that `compute` gives when it is first needed.
  static Metric deferred(const std::string& kind, std::function<std::vector<double>()> compute);

 private:
  struct Pending;
  Metric(std::string kind, std::vector<double> state);

  std::string kind_;
  std::vector<double> state_;
  std::shared_ptr<Pending> pending_;  // instead of state_, until something is merged
};

}  // namespace muster::inline v0_1
