// Checks of heads for options, labels, logits and weights. Errors are InvalidArgument and begin
// with the head: "BinaryClassHead \"clicked\": ...". Thread safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/features/weight_column.h"
#include "muster/heads/head.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/features.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// Returns "BinaryClassHead", and the name in quotes if it has one.
std::string title_of(const std::string& kind, const std::string& name);

// Throws InvalidArgument "<head>: <argument> is <value>; it must be <allowed>".
[[noreturn]] void refuse(const std::string& head, const std::string& argument,
                         const std::string& value, const std::string& allowed,
                         const std::string& hint = {});

// Throws InvalidArgument for kNone.
void check_reduction(const std::string& head, losses::Reduction reduction);
// Throws InvalidArgument for one outside of (0, 1), and for two that keys of metrics write alike.
void check_thresholds(const std::string& head, const std::vector<double>& thresholds);

// Returns the one tensor of logits, [batch..., dimension]. Throws InvalidArgument for others.
Tensor checked_logits(const std::string& head, const Logits& logits, int64_t dimension);

// Returns the one value of labels. Throws InvalidArgument, with the existing features, if there are
// no labels, and if there are several.
const Value& label_value(const std::string& head, const Labels& labels, const Features& features);

// Returns labels, numbers, in the shape of the logits with `last` as its last axis, which they may
// lack if it is 1. Throws InvalidArgument with both shapes for others.
Tensor fitted_labels(const std::string& head, const Tensor& labels, const Tensor& logits,
                     int64_t last);

// Throws InvalidArgument naming the first number that is not in [low, high], and its place. For
// numbers on another device it waits for that device.
void check_range(const std::string& head, std::string_view what, const Tensor& numbers, double low,
                 double high, const std::string& allowed);

// Returns the weights in that feature as floats [batch..., 1], or in the shape of the logits where
// `per_logit` allows it; undefined for none. Throws InvalidArgument if they are missing, of another
// shape, below 0 or not finite.
Tensor weights_of(const std::string& head, const Features& features,
                  const WeightColumn& weight_column, const Tensor& logits, bool per_logit);

// Returns the loss of each example that `loss_fn` computes. Throws InvalidArgument if it is not of
// that shape.
Tensor losses_of(const std::string& head, const HeadLossFn& loss_fn, const Tensor& labels,
                 const Tensor& logits, const Features& features, const Shape& shape);

// Returns the size of each axis of `logits` but the last, which is `last`.
Shape shape_with(const Tensor& logits, int64_t last);

}  // namespace muster::inline v0_1::internal
