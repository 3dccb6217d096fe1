// The head of a classifier by its number of classes. Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/heads/head.h"

namespace muster::inline v0_1::internal {

// Gives a BinaryClassHead() for two classes, a MultiClassHead() for more. Throws InvalidArgument,
// which begins with `estimator`, for less.
Head classifier_head(const std::string& estimator, int64_t n_classes,
                     const std::string& weight_column,
                     const std::vector<std::string>& label_vocabulary,
                     losses::Reduction loss_reduction);

}  // namespace muster::inline v0_1::internal
