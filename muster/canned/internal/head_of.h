// The heads of classifiers and regressors. All errors begin with `estimator`, the name of the
// called estimator. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/features/weight_column.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1::internal {

// Returns a BinaryClassHead() for two classes, a MultiClassHead() for more. Throws InvalidArgument
// for less, and for options that the head refuses.
Head classifier_head(const std::string& estimator, int64_t n_classes,
                     const WeightColumn& weight_column,
                     const std::vector<std::string>& label_vocabulary,
                     losses::Reduction loss_reduction);

// Returns a RegressionHead(). Throws InvalidArgument for options that the head refuses.
Head regressor_head(const std::string& estimator, int64_t label_dimension,
                    const WeightColumn& weight_column, losses::Reduction loss_reduction);

}  // namespace muster::inline v0_1::internal
