// What every loss does first: labels and predictions are checked, brought to the same shape and to
// the dtype losses are computed in. Thread safety: pure functions.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::losses::internal {

inline constexpr double kEpsilon = 1e-7;  // Keras's backend epsilon

// Labels and predictions of the same shape and dtype: [batch..., outputs].
struct Inputs {
  Tensor labels;
  Tensor predictions;
};

// How labels may differ from predictions in shape.
enum class Fit {
  kOutputs,  // [batch] is [batch, 1]; labels may lack an axis that is 1 at the end of predictions
  kClasses,  // [batch..., classes] and nothing else: the last axis belongs together
};

// Checks both and makes them alike; the dtype is that of wide(predictions). `loss` is the name for
// errors. Throws InvalidArgument for undefined tensors, predictions of another dtype than floating
// point, and shapes that do not fit (the error shows both).
Inputs inputs_of(const char* loss, const Tensor& labels, const Tensor& predictions, Fit fit);

// Throws InvalidArgument when one of the two is undefined.
void check_defined(const char* loss, const Tensor& labels, const Tensor& predictions);

// Gives float32 for bfloat16 and float16, whose few digits do not suffice for sums; others as they
// are.
Tensor wide(const Tensor& predictions);

// Return `x` where it is within the bound, and the bound elsewhere. The derivative at the bound is
// 1, as in TensorFlow. That of LibTorch's clamp() depends on the version: 1 in 1.13, 0 in 2.15.
Tensor at_least(double bound, const Tensor& x);
Tensor at_most(double bound, const Tensor& x);

// Returns the error for labels and predictions that do not fit.
Error shape_mismatch(const char* loss, const Tensor& labels, const Tensor& predictions,
                     std::string hint);

// Gives the hint for labels and predictions that stand in each other's place.
std::string swapped(const char* loss);

// Gives "row 2", or "row 2, position 1," where rows have several labels: the place of label
// `index` among `count` of `rows` rows.
std::string place_of(int64_t index, int64_t count, int64_t rows);

// Throws InvalidArgument naming the first label outside [0, 1], and its place. `labels` are
// floating point. For labels on another device it waits for that device.
void check_probabilities(const char* loss, const Tensor& labels);

// Throws InvalidArgument naming the first prediction that is more than 0.001 below 0 or above
// `most`, and its place: logits that are taken for probabilities. It looks at the first 1024
// numbers, among which logits show. On another device, where a look waits, it looks at the calls 1,
// 2, 4, 8, ... of the process alone. What is not a number passes, for the loss shows it.
inline constexpr double kAnyScale = std::numeric_limits<double>::infinity();  // scaled to sum 1
void check_predictions(const char* loss, const Tensor& predictions, double most);

// Throws InvalidArgument naming option and value unless `good`.
void check_option(const char* loss, const char* option, double value, bool good,
                  std::string_view allowed);

// Throws InvalidArgument unless `axis` is one of `predictions` after that of the batch; returns it
// counted from the front.
int64_t check_axis(const char* loss, int64_t axis, const Tensor& predictions);

// Weights and reduces as compute_weighted_loss() does; an error also names the loss.
Tensor weighted(const char* loss, const Tensor& losses, const Tensor& sample_weight,
                Reduction reduction);

// Gives the mean over `axis`.
Tensor mean_over(const Tensor& values, int64_t axis = -1);

}  // namespace muster::inline v0_1::losses::internal
