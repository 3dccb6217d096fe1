// Dual coordinate ascent on plain numbers; muster/canned/linear_sdca.h has the problem and the
// sources. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/base/random.h"

namespace muster::inline v0_1::internal {

enum class SdcaLoss { kSquared, kLogistic };

struct SdcaRule {
  SdcaLoss loss = SdcaLoss::kSquared;
  double l1 = 0;
  double l2 = 1;
  double partitions = 1;
};

// Examples, each a list of coordinates, none of them twice, and the numbers there.
struct SdcaExamples {
  std::vector<size_t> offsets{0};  // example i has the entries [offsets[i], offsets[i + 1])
  std::vector<size_t> coordinates{};
  std::vector<double> numbers{};
  std::vector<double> labels{};   // of kLogistic 1 and -1
  std::vector<double> weights{};  // 0 or more
  std::vector<size_t> duals{};    // which dual variable is its own; a batch may have one twice

  size_t size() const { return labels.size(); }
};

// Makes a weight smaller by l1 / l2, down to 0.
double shrunk(const SdcaRule& rule, double weight);

// Returns the dual variable that is best where all others stay: `wx` is the prediction, `square`
// the sum of the example's squares over l2.
double best_dual(const SdcaRule& rule, double label, double weight, double dual, double wx,
                 double square);

// Goes once over the examples, or draws as many if `drawn` is set: changes `duals`, and adds to
// `change` [coordinates] the resulting change of the weights, which were `weights`, before they are
// shrunk.
void sdca_pass(const SdcaRule& rule, const SdcaExamples& examples,
               const std::vector<double>& weights, std::vector<double>& change,
               std::vector<double>& duals, Random* drawn = nullptr);

}  // namespace muster::inline v0_1::internal
