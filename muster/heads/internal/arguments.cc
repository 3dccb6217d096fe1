#include "muster/heads/internal/arguments.h"

#include <fmt/format.h>

#include <limits>
#include <set>

#include "muster/base/error.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr const char* kLabelsComeWith =
    "in modes train and eval the data gives both: Element::tuple({features, labels})";

// Returns "[2, 0]" for an element that is counted through all axes.
std::string place_of_element(const Tensor& tensor, int64_t index) {
  Shape place(static_cast<size_t>(tensor.dim()));
  for (int64_t axis = tensor.dim() - 1; axis >= 0; --axis) {
    place[static_cast<size_t>(axis)] = index % tensor.size(axis);
    index /= tensor.size(axis);
  }
  return describe(place);
}

std::string described(const Features& features) {
  return features.defined() ? features.element().describe() : std::string("none");
}

}  // namespace

std::string title_of(const std::string& kind, const std::string& name) {
  return name.empty() ? kind : fmt::format("{} \"{}\"", kind, name);
}

void refuse(const std::string& head, const std::string& argument, const std::string& value,
            const std::string& allowed, const std::string& hint) {
  throw invalid_argument(fmt::format("{}: {} is {}; it must be {}", head, argument, value, allowed),
                         hint);
}

void check_reduction(const std::string& head, losses::Reduction reduction) {
  if (reduction != losses::Reduction::kNone) return;
  refuse(head, "loss_reduction", "kNone", "kSumOverBatchSize or kSum",
         "a step needs one number; Head::metrics() and a loss_fn see the loss of each example");
}

void check_thresholds(const std::string& head, const std::vector<double>& thresholds) {
  std::set<std::string> seen;
  for (size_t i = 0; i < thresholds.size(); ++i) {
    const double threshold = thresholds[i];
    const std::string text = fmt::format("{:g}", threshold);
    const std::string argument = fmt::format("thresholds[{}]", i);
    if (!(threshold > 0 && threshold < 1)) refuse(head, argument, text, "in (0, 1)");
    if (!seen.insert(text).second) refuse(head, argument, text + ", as one before it", "another");
  }
}

Tensor checked_logits(const std::string& head, const Logits& logits, int64_t dimension) {
  const std::string wanted = fmt::format("floats [batch..., {}]", dimension);
  if (logits.is_by_head()) {
    refuse(head, "logits", logits.describe(), "one tensor, " + wanted,
           "a dict of logits is for MultiHead");
  }
  const Tensor& tensor = logits.tensor();
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.dim() < 2 ||
      tensor.size(-1) != dimension) {
    refuse(head, "logits", logits.describe(), wanted,
           "the last layer has Head::logits_dimension() units and no activation");
  }
  // 16 bits are too coarse for means, and not all operations of a CPU take them.
  return tensor.element_size() < 4 ? tensor.to(kFloat32) : tensor;
}

const Value& label_value(const std::string& head, const Labels& labels, const Features& features) {
  if (!labels.defined()) {
    throw invalid_argument(
        fmt::format("{}: there are no labels; the features are {}", head, described(features)),
        kLabelsComeWith);
  }
  const auto& values = labels.element().values();
  if (values.size() != 1) {
    refuse(head, "labels", labels.element().describe(), "one value",
           "give it one of them, Labels(labels.element().at(\"key\")), or use MultiHead");
  }
  if (values.front().is_tensor() && !values.front().tensor().defined()) {
    throw invalid_argument(fmt::format("{}: the labels are undefined", head), kLabelsComeWith);
  }
  return values.front();
}

Shape shape_with(const Tensor& logits, int64_t last) {
  Shape shape = logits.sizes().vec();
  shape.back() = last;
  return shape;
}

Tensor fitted_labels(const std::string& head, const Tensor& labels, const Tensor& logits,
                     int64_t last) {
  const Shape wanted = shape_with(logits, last);
  const Tensor fitted =
      last == 1 && labels.dim() + 1 == logits.dim() ? labels.unsqueeze(-1) : labels;
  if (fitted.sizes() == at::IntArrayRef(wanted)) return fitted.to(logits.device());
  throw invalid_argument(
      fmt::format("{}: labels {} do not fit logits {}; they must be {}", head, describe(labels),
                  describe(logits), describe(wanted)),
      last == 1 && labels.dim() == logits.dim()
          ? "labels are one number for each example: of one-hot ones take argmax(-1)"
          : "");
}

void check_range(const std::string& head, std::string_view what, const Tensor& numbers, double low,
                 double high, const std::string& allowed) {
  if (all_between(numbers, low, high)) return;
  const Tensor local = numbers.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* values = local.data_ptr<double>();
  for (int64_t i = 0; i < local.numel(); ++i) {
    if (values[i] >= low && values[i] <= high) continue;
    throw invalid_argument(fmt::format("{}: {}{} is {:.6g}; {} must be {}", head, what,
                                       place_of_element(local, i), values[i], what, allowed));
  }
}

Tensor weights_of(const std::string& head, const Features& features,
                  const WeightColumn& weight_column, const Tensor& logits, bool per_logit) {
  if (weight_column.empty()) return {};
  if (!weight_column.is_in(features)) {
    refuse(head, "weight_column", fmt::format("\"{}\"", weight_column.key()),
           fmt::format("one of the features, {}", described(features)));
  }
  const Value value = weight_column.of(features);
  const std::string name = fmt::format("the weights \"{}\"", weight_column.key());
  if (!value.is_tensor()) refuse(head, name, value.describe(), "numbers");
  const Tensor& given = value.tensor();
  const Tensor weights = given.dim() + 1 == logits.dim() ? given.unsqueeze(-1) : given;
  const bool fits = weights.sizes() == at::IntArrayRef(shape_with(logits, 1)) ||
                    (per_logit && weights.sizes() == logits.sizes());
  if (!fits) {
    throw invalid_argument(
        fmt::format("{}: {} are {}, which do not fit logits {}; they must be {}{}", head, name,
                    describe(given), describe(logits), describe(shape_with(logits, 1)),
                    per_logit ? " or of the shape of the logits" : ""));
  }
  const DType dtype = given.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  check_range(head, name, given.to(dtype), 0, std::numeric_limits<float>::max(),
              "finite and 0 or more");
  return weights.to(logits.device(), dtype);
}

Tensor losses_of(const std::string& head, const HeadLossFn& loss_fn, const Tensor& labels,
                 const Tensor& logits, const Features& features, const Shape& shape) {
  Tensor losses = loss_fn(labels, logits, features);
  if (losses.defined() && losses.is_floating_point() && losses.sizes() == at::IntArrayRef(shape)) {
    return losses;
  }
  refuse(head, "what loss_fn gave", describe(losses), "floats " + describe(shape),
         "a loss_fn gives the loss of each example, and the head reduces it");
}

}  // namespace muster::inline v0_1::internal
