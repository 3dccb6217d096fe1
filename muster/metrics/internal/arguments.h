// What metrics ask of their arguments: labels, predictions and weights that fit each other. Errors
// are InvalidArgument and name the metric, the argument, its value and what is allowed.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics::internal {

// Labels and predictions of one batch, without gradients.
struct Labeled {
  Tensor labels;
  Tensor predictions;
  Tensor as_given;  // the predictions before a change of shape, for errors
};

// Throws InvalidArgument for a tensor that is undefined; `what` names it in the plural.
void check_defined(const char* metric, const char* what, const Tensor& tensor);

// Throws InvalidArgument "metrics::auc: num_thresholds is 1; it must be at least 2".
[[noreturn]] void refuse(const std::string& metric, const std::string& argument,
                         const std::string& value, const std::string& allowed);
// Throws InvalidArgument unless `value` is at least `least`.
void check_at_least(const char* metric, const char* argument, int64_t value, int64_t least);
// Throws InvalidArgument unless `value` is in [0, 1].
void check_fraction(const char* metric, const char* argument, double value);

// Gives both in one shape, which is that of the one with fewer axes: [batch] and [batch, 1] fit
// each other. Throws InvalidArgument with both shapes for others.
Labeled in_one_shape(const char* metric, const Tensor& labels, const Tensor& predictions,
                     const std::string& hint = {});
// The same with a last axis of outputs: [batch] becomes [batch, 1].
Labeled with_outputs(const char* metric, const Tensor& labels, const Tensor& predictions);
// Gives class numbers, labels [batch...], next to predictions [batch..., classes]. Labels may come
// as [batch..., 1]. Throws InvalidArgument with both shapes for others, and when there is no class.
Labeled with_classes(const char* metric, const Tensor& labels, const Tensor& predictions);

// Gives class numbers as int64 in one row on the CPU. Throws InvalidArgument with the place of a
// number that is not a class, one of 0 .. classes - 1. What equals `ignored` may stand among them.
Tensor class_numbers(const char* metric, const char* what, const Tensor& tensor, int64_t classes,
                     const int64_t* ignored = nullptr);

// Throws InvalidArgument "metrics::auc: predictions[3] is 1.5; predictions are in [0, 1]". `index`
// counts in row-major order; a last axis of 1, which [batch] and [batch, 1] share, is left out.
[[noreturn]] void refuse_element(const char* metric, const char* what, const Tensor& tensor,
                                 int64_t index, double value, const std::string& allowed,
                                 const std::string& hint = {});
// Throws this for the first element that is not in [0, 1].
void check_unit_range(const char* metric, const char* what, const Tensor& tensor);

// Gives weights, without gradients, for values of the shape `form`: of that shape, or of its
// leading axes. They may come as a scalar, with sizes of 1 for the same weight along an axis, and
// with one more axis of size 1. Undefined ones stay so. Throws InvalidArgument with the shapes of
// the weights and of `fitted`, which is called `name`.
Tensor fit_weights(const char* metric, const Tensor& weights, const Shape& form, const char* name,
                   const Tensor& fitted);
// Throws InvalidArgument for a weight below 0, or none; undefined weights are fine. It reads them,
// so it is for the time when the metric is computed.
void check_weights(const char* metric, const Tensor& weights);
// Gives such weights for each value, repeated along the axes they lack.
Tensor weights_of_each(const Tensor& weights, const Shape& form);

// Gives "class 2", or "classes 2, 5 and 9" with what is too many cut off, for texts about them.
std::string which_classes(const std::vector<size_t>& classes);

// float64 for predictions of that dtype, else float32: what numbers near 1 are compared and
// clipped in.
DType compute_dtype(const Tensor& predictions);

}  // namespace muster::inline v0_1::metrics::internal
