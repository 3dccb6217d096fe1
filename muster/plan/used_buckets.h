// Which parts of buckets travel where a backward uses some parameters alone: a network of two that
// take turns, a part that rests. Thread safety: parts are values; UsePrediction belongs to one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "muster/plan/buckets.h"

namespace muster::inline v0_1::plan {

// The parts of `buckets` whose parameters are `used`, in the order of the buckets: neighbours in
// memory make one part. `buckets` are plan_buckets(layout, ...); `used` has an entry for each
// number of a parameter. A bucket that would fall into more than `most_parts` parts stays whole: a
// message costs more than some zeros. Throws InvalidArgument for a parameter without an entry.
std::vector<Bucket> used_parts(std::span<const FlatParameter> layout,
                               std::span<const Bucket> buckets, const std::vector<bool>& used,
                               int most_parts);

// Predicts which parameters the next backward uses, from those that the ones before it used. Loops
// repeat themselves: the prediction is what followed the last time on the same history. The longest
// known history of at most eight backwards counts. Where none is known, the last backward's
// parameters are expected again. All ranks note the same sets, so they predict the same.
class UsePrediction {
 public:
  // The first prediction: all of them.
  explicit UsePrediction(size_t parameters) : expected_(parameters, true) {}

  // By number of the parameter.
  const std::vector<bool>& expected() const { return expected_; }
  // What a backward used.
  void note(const std::vector<bool>& used);

 private:
  std::vector<bool> expected_;
  std::vector<std::vector<bool>> sets_;         // that were noted, each once
  std::vector<size_t> history_;                 // indexes into sets_; the last one is the newest
  std::map<std::vector<size_t>, size_t> next_;  // what followed on a history
};

}  // namespace muster::inline v0_1::plan
