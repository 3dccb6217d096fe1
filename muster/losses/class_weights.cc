#include "muster/losses/class_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

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

// Returns the class of each row of [batch, classes]. A row means one class if one place is larger
// than all others and these are equal, as in one-hot labels and smoothed ones.
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

// Returns the classes of labels as int64[batch].
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
