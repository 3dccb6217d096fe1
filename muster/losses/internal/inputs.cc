#include "muster/losses/internal/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <tuple>

#include "muster/losses/sample_weight.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses::internal {
namespace {

bool half(const Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

// Returns the labels in the shape of the predictions where the rules of kOutputs allow it.
Tensor with_last_axis(const Tensor& labels, const Tensor& predictions) {
  if (labels.dim() <= 1 && predictions.dim() <= 2) return labels.reshape({-1, 1});
  const bool lacks_one = labels.dim() + 1 == predictions.dim() && predictions.size(-1) == 1;
  return lacks_one ? labels.unsqueeze(-1) : labels;
}

}  // namespace

void check_defined(const char* loss, const Tensor& labels, const Tensor& predictions) {
  if (labels.defined() && predictions.defined()) return;
  throw invalid_argument(
      fmt::format("{}: the {} are undefined", loss, labels.defined() ? "predictions" : "labels"),
      labels.defined() ? "" : "the input function must return labels in this mode");
}

Tensor wide(const Tensor& predictions) {
  return half(predictions) ? predictions.to(at::kFloat) : predictions;
}

Tensor at_least(double bound, const Tensor& x) { return x.masked_fill(x < bound, bound); }

Tensor at_most(double bound, const Tensor& x) { return x.masked_fill(x > bound, bound); }

Error shape_mismatch(const char* loss, const Tensor& labels, const Tensor& predictions,
                     std::string hint) {
  return invalid_argument(fmt::format("{}: labels {} do not fit predictions {}", loss,
                                      describe(labels), describe(predictions)),
                          std::move(hint));
}

std::string swapped(const char* loss) {
  return fmt::format("the labels come first: {}(labels, predictions)", loss);
}

Inputs inputs_of(const char* loss, const Tensor& labels, const Tensor& predictions, Fit fit) {
  check_defined(loss, labels, predictions);
  if (!predictions.is_floating_point()) {
    throw invalid_argument(
        fmt::format("{}: predictions are {}", loss, describe(predictions)),
        labels.is_floating_point() ? swapped(loss) : "predictions are floating point");
  }
  Inputs inputs;
  inputs.predictions = wide(predictions);
  inputs.labels = labels.to(inputs.predictions.scalar_type());
  if (fit == Fit::kOutputs) {
    if (predictions.dim() <= 1) inputs.predictions = inputs.predictions.reshape({-1, 1});
    inputs.labels = with_last_axis(inputs.labels, inputs.predictions);
  } else if (predictions.dim() < 2) {
    throw invalid_argument(fmt::format("{}: predictions are {}", loss, describe(predictions)),
                           "predictions are [batch, classes]");
  }
  if (inputs.labels.sizes() != inputs.predictions.sizes()) {
    const bool numbers = fit == Fit::kClasses && labels.dim() < predictions.dim();
    throw shape_mismatch(loss, labels, predictions,
                         numbers ? "both need the same shape; for class numbers there is "
                                   "sparse_categorical_crossentropy, or at::one_hot"
                                 : "both need the same shape");
  }
  if (inputs.predictions.size(-1) == 0) {
    throw invalid_argument(fmt::format("{}: predictions are {}", loss, describe(predictions)),
                           "the last axis needs an output");
  }
  return inputs;
}

std::string place_of(int64_t index, int64_t count, int64_t rows) {
  const int64_t each = rows > 0 ? count / rows : 1;  // labels a row
  return each > 1 ? fmt::format("row {}, position {},", index / each, index % each)
                  : fmt::format("row {}", index);
}

void check_probabilities(const char* loss, const Tensor& labels) {
  if (all_between(labels, 0, 1)) return;
  const Tensor local = labels.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* numbers = local.data_ptr<double>();
  for (int64_t i = 0; i < local.numel(); ++i) {
    if (numbers[i] >= 0 && numbers[i] <= 1) continue;
    throw invalid_argument(fmt::format("{}: the label of {} is {:.6g}, outside [0, 1]", loss,
                                       place_of(i, local.numel(), local.size(0)), numbers[i]),
                           "labels are probabilities of classes");
  }
}

namespace {

constexpr int64_t kSampled = 1024;

// Returns the first numbers, as double on the CPU.
Tensor sample_of(const Tensor& predictions) {
  const Tensor given = predictions.detach();
  const int64_t each = given.numel() / given.size(0);
  const int64_t rows = std::min(given.size(0), std::max<int64_t>(kSampled / each, 1));
  return given.narrow(0, 0, rows)
      .reshape({-1})
      .slice(0, 0, kSampled)
      .to(at::kCPU, at::kDouble)
      .contiguous();
}

// Returns the index of the first that is out of range, or -1.
template <typename T>
int64_t first_outside(const T* numbers, int64_t count, double most) {
  constexpr double kTolerance = 1e-3;  // means of probabilities are rounded
  for (int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<double>(numbers[i]);
    if (number < -kTolerance || number > most + kTolerance) return i;
  }
  return -1;
}

// Whether a device is asked to wait this time.
bool looks_now() {
  static std::atomic<uint64_t> calls{0};
  return std::has_single_bit(calls.fetch_add(1, std::memory_order_relaxed) + 1);
}

}  // namespace

void check_predictions(const char* loss, const Tensor& predictions, double most) {
  if (predictions.numel() == 0 || predictions.dim() == 0) return;
  if (!predictions.is_cpu() && !looks_now()) return;
  const int64_t count = std::min(predictions.numel(), kSampled);
  // Without an operation of LibTorch if possible: it runs in every step.
  const bool plain = predictions.is_cpu() && predictions.is_contiguous() &&
                     predictions.scalar_type() == at::kFloat;
  if (plain && first_outside(predictions.data_ptr<float>(), count, most) < 0) return;
  const Tensor sample = sample_of(predictions);
  const double* numbers = sample.data_ptr<double>();
  const int64_t place = first_outside(numbers, sample.numel(), most);
  if (place < 0) return;
  throw invalid_argument(
      fmt::format("{}: the prediction of {} is {:.6g}, {}", loss,
                  place_of(place, predictions.numel(), predictions.size(0)), numbers[place],
                  std::isfinite(most) ? fmt::format("outside [0, {}]", most) : "below 0"),
      "predictions are probabilities; for logits: {.from_logits = true}");
}

void check_option(const char* loss, const char* option, double value, bool good,
                  std::string_view allowed) {
  if (good) return;
  throw invalid_argument(fmt::format("{}: {} is {}; it must be {}", loss, option, value, allowed));
}

int64_t check_axis(const char* loss, int64_t axis, const Tensor& predictions) {
  const int64_t rank = predictions.dim();
  const int64_t place = axis < 0 ? axis + rank : axis;
  if (place >= 1 && place < rank) return place;
  throw invalid_argument(
      fmt::format("{}: axis is {}, for predictions {}", loss, axis, describe(predictions)),
      fmt::format("axis 0 is the batch; an axis of an example is in [1, {}) or [{}, 0)", rank,
                  1 - rank));
}

Tensor weighted(const char* loss, const Tensor& losses, const Tensor& sample_weight,
                Reduction reduction) {
  try {
    return compute_weighted_loss(losses, sample_weight, reduction);
  } catch (const Error& error) {
    throw error.with_detail(fmt::format("of {}, which has a loss for each example", loss));
  }
}

Tensor mean_over(const Tensor& values, int64_t axis) {
  return values.size(axis) == 1 ? values.squeeze(axis) : values.mean(axis);
}

}  // namespace muster::inline v0_1::losses::internal
