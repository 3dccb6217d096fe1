#include "muster/metrics/internal/arguments.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics::internal {
namespace {

void check_both(const char* metric, const Tensor& labels, const Tensor& predictions) {
  check_defined(metric, "labels", labels);
  check_defined(metric, "predictions", predictions);
}

Error misfit(const char* metric, const Tensor& labels, const Tensor& predictions,
             const std::string& hint) {
  return invalid_argument(fmt::format("metrics::{}: labels {} do not fit predictions {}", metric,
                                      describe(labels), describe(predictions)),
                          hint);
}

// "[3]" for the fourth row of a tensor with one column, "[3, 0]" if there are several.
std::string place(const Tensor& tensor, int64_t index) {
  Shape at(tensor.sizes().size());
  for (int64_t axis = tensor.dim() - 1; axis >= 0; --axis) {
    at[static_cast<size_t>(axis)] = index % tensor.size(axis);
    index /= tensor.size(axis);
  }
  if (at.size() > 1 && tensor.size(-1) == 1) at.pop_back();
  return at.empty() ? "" : describe(at);
}

}  // namespace

void check_defined(const char* metric, const char* what, const Tensor& tensor) {
  if (tensor.defined()) return;
  throw invalid_argument(fmt::format("metrics::{}: the {} are undefined", metric, what));
}

void refuse(const std::string& metric, const std::string& argument, const std::string& value,
            const std::string& allowed) {
  throw invalid_argument(
      fmt::format("metrics::{}: {} is {}; it must be {}", metric, argument, value, allowed));
}

void check_at_least(const char* metric, const char* argument, int64_t value, int64_t least) {
  if (value < least)
    refuse(metric, argument, std::to_string(value), fmt::format("at least {}", least));
}

void check_fraction(const char* metric, const char* argument, double value) {
  if (!(value >= 0 && value <= 1)) refuse(metric, argument, fmt::format("{}", value), "in [0, 1]");
}

namespace {

// Says what to do where labels and predictions differ in shape.
std::string how_to_fit(const std::string& metric, const Tensor& labels, const Tensor& predictions) {
  const bool numbers = labels.dim() + 1 == predictions.dim() && predictions.size(-1) > 1;
  if (!numbers) return "both need the same shape; [batch] and [batch, 1] fit each other";
  for (const char* name :
       {"categorical_accuracy", "top_k_categorical_accuracy", "categorical_crossentropy"}) {
    if (metric == name)
      return fmt::format("labels are one-hot here; for class numbers there is sparse_{}", name);
  }
  std::string hint = fmt::format(
      "both need the same shape: class numbers become one-hot by at::one_hot(labels, {})",
      predictions.size(-1));
  if (predictions.size(-1) == 2)
    hint += "; of two classes the probability of the second is enough: predictions.select(-1, 1)";
  return hint;
}

}  // namespace

Labeled in_one_shape(const char* metric, const Tensor& labels, const Tensor& predictions,
                     const std::string& hint) {
  check_both(metric, labels, predictions);
  Labeled given{labels.detach(), predictions.detach(), predictions.detach()};
  const int64_t more = labels.dim() - predictions.dim();
  if (more == 1 && labels.size(-1) == 1) given.labels = given.labels.squeeze(-1);
  if (more == -1 && predictions.size(-1) == 1) given.predictions = given.predictions.squeeze(-1);
  if (given.labels.sizes() != given.predictions.sizes()) {
    throw misfit(metric, labels, predictions,
                 hint.empty() ? how_to_fit(metric, labels, predictions) : hint);
  }
  return given;
}

Labeled with_outputs(const char* metric, const Tensor& labels, const Tensor& predictions) {
  Labeled given = in_one_shape(metric, labels, predictions);
  if (given.labels.dim() <= 1) {
    given.labels = given.labels.unsqueeze(-1);
    given.predictions = given.predictions.unsqueeze(-1);
  }
  if (given.predictions.size(-1) == 0)
    refuse(metric, "predictions", describe(predictions), "at least one number for each example");
  return given;
}

Labeled with_classes(const char* metric, const Tensor& labels, const Tensor& predictions) {
  check_both(metric, labels, predictions);
  const std::string hint = "labels are [batch] or [batch, 1] for predictions [batch, classes]";
  if (predictions.dim() < 1 || predictions.size(-1) == 0)
    throw misfit(metric, labels, predictions, hint);
  const auto batch = predictions.sizes().slice(0, predictions.dim() - 1);
  Labeled given{labels.detach(), predictions.detach(), predictions.detach()};
  if (labels.dim() == predictions.dim() && labels.size(-1) == 1)
    given.labels = given.labels.squeeze(-1);
  if (given.labels.sizes() != batch) throw misfit(metric, labels, predictions, hint);
  return given;
}

Tensor class_numbers(const char* metric, const char* what, const Tensor& tensor, int64_t classes,
                     const int64_t* ignored) {
  const Tensor given = tensor.to(at::kCPU, at::kDouble).reshape({-1}).contiguous();
  const Tensor numbers = at::empty(given.sizes(), at::kLong);
  const double* from = given.data_ptr<double>();
  int64_t* to = numbers.data_ptr<int64_t>();
  for (int64_t i = 0; i < given.numel(); ++i) {
    const bool known =
        from[i] >= 0 && from[i] < static_cast<double>(classes) && from[i] == std::floor(from[i]);
    if (!known && (ignored == nullptr || from[i] != static_cast<double>(*ignored))) {
      refuse_element(metric, what, tensor, i, from[i],
                     fmt::format("class numbers from 0 to {}", classes - 1));
    }
    to[i] = static_cast<int64_t>(from[i]);
  }
  return numbers;
}

void refuse_element(const char* metric, const char* what, const Tensor& tensor, int64_t index,
                    double value, const std::string& allowed, const std::string& hint) {
  throw invalid_argument(fmt::format("metrics::{}: {}{} is {}; {} are {}", metric, what,
                                     place(tensor, index), value, what, allowed),
                         hint);
}

void check_unit_range(const char* metric, const char* what, const Tensor& tensor) {
  const Tensor given = tensor.to(at::kCPU, at::kDouble).contiguous();
  const double* values = given.data_ptr<double>();
  for (int64_t i = 0; i < given.numel(); ++i) {
    if (!(values[i] >= 0 && values[i] <= 1))
      refuse_element(metric, what, tensor, i, values[i], "in [0, 1]");
  }
}

Tensor fit_weights(const char* metric, const Tensor& weights, const Shape& form, const char* name,
                   const Tensor& fitted) {
  if (!weights.defined()) return {};
  const auto rank = static_cast<int64_t>(form.size());
  const at::IntArrayRef sizes(form);
  const auto leading = [&](const Tensor& of) { return sizes.slice(0, of.dim()); };
  Tensor given = weights.detach();
  if (given.dim() == rank + 1 && given.size(-1) == 1) given = given.squeeze(-1);
  if (given.dim() > 0 && given.dim() <= rank && given.sizes() != leading(given) &&
      given.size(-1) == 1) {
    given = given.squeeze(-1);
  }
  if (given.dim() == 0) return given.expand(form);
  bool fits = given.dim() <= rank;
  for (int64_t axis = 0; fits && axis < given.dim(); ++axis)
    fits = given.size(axis) == 1 || given.size(axis) == sizes[static_cast<size_t>(axis)];
  if (!fits) {
    throw invalid_argument(fmt::format("metrics::{}: weights {} do not fit {} {}", metric,
                                       describe(weights), name, describe(fitted)),
                           "give one weight, or one for each example");
  }
  return given.expand(leading(given));
}

void check_weights(const char* metric, const Tensor& weights) {
  if (!weights.defined()) return;
  const Tensor given = weights.to(at::kCPU, at::kDouble).contiguous();
  const double* values = given.data_ptr<double>();
  for (int64_t i = 0; i < given.numel(); ++i) {
    if (!(values[i] >= 0)) refuse_element(metric, "weights", weights, i, values[i], "at least 0");
  }
}

Tensor weights_of_each(const Tensor& weights, const Shape& form) {
  Tensor each = weights;
  while (each.dim() < static_cast<int64_t>(form.size())) each = each.unsqueeze(-1);
  return each.expand(form);
}

DType compute_dtype(const Tensor& predictions) {
  return predictions.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::string which_classes(const std::vector<size_t>& classes) {
  constexpr size_t kShown = 8;
  std::string text = classes.size() == 1 ? "class" : "classes";
  for (size_t i = 0; i < std::min(classes.size(), kShown); ++i)
    text += fmt::format("{} {}", i == 0 ? "" : ",", classes[i]);
  if (classes.size() > kShown) text += fmt::format(" and {} more", classes.size() - kShown);
  return text;
}

}  // namespace muster::inline v0_1::metrics::internal
