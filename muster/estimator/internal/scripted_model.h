// The small model of test_model.h, with an evaluation whose metric is known beforehand.
#pragma once

#include <algorithm>

#include "muster/estimator/testing/test_model.h"
#include "muster/metrics/metrics.h"

namespace muster::inline v0_1::testing {

// Its metric "m" is 30 at step 0, 0 at step 30 and from then on.
inline EstimatorSpec falls_until_30(const Features& features, const Labels& labels, Mode mode,
                                    ModelContext& context) {
  EstimatorSpec spec = two_layers(features, labels, mode, context);
  if (mode != Mode::kEval) return spec;
  const double value = static_cast<double>(std::max<int64_t>(0, 30 - context.global_step()));
  return EstimatorSpec::eval(spec.loss, {{"m", metrics::mean(torch::full({1}, value))}});
}

}  // namespace muster::inline v0_1::testing
