// The objective of the trees: the loss of an example, given its logits. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/trees/internal/gradients.h"
#include "muster/trees/internal/rows.h"

namespace muster::inline v0_1::trees {

// kLogistic: sigmoid cross entropy of a label 0 or 1, by one logit. kSoftmax: cross entropy of a
// class number, by a logit for each class. kSquared: half the squared difference, so that a hessian
// is a weight.
enum class Loss { kLogistic, kSoftmax, kSquared };

// "logistic", "softmax" or "squared".
std::string_view loss_name(Loss loss);

// Logits of the rows: [outputs][rows].
using Scores = std::vector<std::vector<double>>;

// The derivatives of weight times loss by each logit, [outputs]. For kSoftmax the hessian is taken
// for the logit by itself, p (1 - p).
std::vector<Derivatives> derivatives_of(Loss loss, const Rows& rows, const Scores& scores);

// The sum of weight times loss over the rows; of kSquared it is the whole square.
double loss_sum(Loss loss, const Rows& rows, const Scores& scores);

}  // namespace muster::inline v0_1::trees
