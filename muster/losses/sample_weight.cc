#include "muster/losses/sample_weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

// True where `weights` have the rank of `losses`, and each axis is as long, or 1.
bool broadcast(const Tensor& weights, const Tensor& losses) {
  if (weights.dim() != losses.dim()) return false;
  for (int64_t axis = 0; axis < losses.dim(); ++axis) {
    if (weights.size(axis) != losses.size(axis) && weights.size(axis) != 1) return false;
  }
  return true;
}

// Gives the weights in a shape that multiplies the losses, leaving theirs as it is.
Tensor fitted(const Tensor& weights, const Tensor& losses) {
  Tensor fit = weights;
  if (weights.dim() == losses.dim() + 1 && weights.size(-1) == 1) fit = weights.squeeze(-1);
  if (weights.dim() + 1 == losses.dim()) fit = weights.unsqueeze(-1);
  if (weights.dim() == 0 || broadcast(fit, losses)) return fit;
  throw invalid_argument(
      fmt::format("sample_weight {} does not fit losses {}", describe(weights), describe(losses)),
      "weights are a scalar, [batch], [batch, 1], or one for each loss");
}

void check_table(const std::vector<double>& class_weight) {
  if (class_weight.empty()) {
    throw invalid_argument("class_weights: class_weight is empty",
                           "give a weight for each class, in their order");
  }
  for (size_t i = 0; i < class_weight.size(); ++i) {
    if (class_weight[i] >= 0 && std::isfinite(class_weight[i])) continue;
    throw invalid_argument(
        fmt::format("class_weights: the weight of class {} is {}; it must be finite and 0 or more",
                    i, class_weight[i]));
  }
}

// Gives the class of each row of [batch, classes]. A row says one class where one place is larger
// than all others and these are equal, as in one-hot labels and those that were smoothed.
Tensor one_hot_classes(const Tensor& labels) {
  const Tensor rows = labels.detach().to(at::kDouble);
  if (rows.size(0) == 0) return rows.new_zeros({0}, at::kLong);
  const auto [largest, classes] = rows.max(1);
  const Tensor others =
      rows.scatter(1, classes.unsqueeze(1), std::numeric_limits<double>::lowest());
  const Tensor next = others.amax(1);
  const Tensor least = rows.amin(1);
  const Tensor one_class = (largest > next)
                               .logical_and(next - least <= 1e-6)
                               .logical_and((least >= 0).logical_and(largest <= 1));
  const Tensor wrong = one_class.logical_not().nonzero();
  if (wrong.size(0) == 0) return classes;
  const auto row = wrong[0][0].item<int64_t>();
  std::string shown;
  for (int64_t c = 0; c < std::min<int64_t>(rows.size(1), 8); ++c)
    shown += fmt::format("{}{:.6g}", c == 0 ? "" : ", ", rows[row][c].item<double>());
  if (rows.size(1) > 8) shown += ", ...";
  throw invalid_argument(
      fmt::format("class_weights: the labels of row {} are [{}], which say no class, or several",
                  row, shown),
      "class_weight is for rows of one class, as numbers or one-hot; give rows of several classes "
      "weights of their own: (features, labels, weights), of each row or of each label");
}

// Gives the classes of labels as int64[batch].
Tensor classes_of(const Tensor& labels, int64_t classes) {
  const bool one_hot = labels.dim() == 2 && labels.size(1) != 1;
  if (labels.dim() < 1 || labels.dim() > 2 || (one_hot && labels.size(1) != classes)) {
    throw invalid_argument(fmt::format("class_weights: labels {} do not fit a table of {} classes",
                                       describe(labels), classes),
                           "labels are class numbers, [batch] or [batch, 1], or [batch, classes]");
  }
  if (one_hot) return one_hot_classes(labels);
  const Tensor local = labels.detach().reshape({-1}).to(at::kCPU, at::kDouble);
  const double* numbers = local.data_ptr<double>();
  for (int64_t i = 0; i < local.numel(); ++i) {
    const double number = numbers[i];
    if (number >= 0 && number < static_cast<double>(classes) && std::floor(number) == number)
      continue;
    throw invalid_argument(
        fmt::format("class_weights: the label of row {} is {:.6g}, no class of [0, {})", i, number,
                    classes),
        fmt::format("the table has weights of {} classes", classes));
  }
  return labels.reshape({-1}).to(at::kLong);
}

}  // namespace

Tensor compute_weighted_loss(const Tensor& losses, const Tensor& sample_weight,
                             Reduction reduction) {
  if (!sample_weight.defined()) return reduce(losses, reduction);
  return reduce(losses * fitted(sample_weight, losses).to(losses.scalar_type()), reduction);
}

Tensor class_weights(const Tensor& labels, const std::vector<double>& class_weight) {
  if (!labels.defined()) {
    throw invalid_argument("class_weights: the labels are undefined",
                           "the input function must return labels in this mode");
  }
  check_table(class_weight);
  const Tensor table = torch::tensor(class_weight, at::kDouble).to(labels.device(), at::kFloat);
  return table.index_select(0, classes_of(labels, static_cast<int64_t>(class_weight.size())));
}

}  // namespace muster::inline v0_1::losses
