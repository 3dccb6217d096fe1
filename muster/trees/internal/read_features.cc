#include "muster/trees/internal/read_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::trees {
namespace {

// A column of a batch.
struct Column {
  Tensor values;  // float32 or float64 [rows, width]
  int64_t place = 0;
};

// Whether float32 holds every number of the type.
bool fits_float(DType dtype) { return dtype != kFloat64 && dtype != kInt64 && dtype != kInt32; }

// The columns of a batch by name, in the order of the dict.
std::vector<std::pair<std::string, Column>> all_columns(const Features& features,
                                                        const InputForm& form) {
  if (features.element().structure().kind != Structure::Kind::kDict) {
    throw invalid_argument(
        "boosted trees need features by name, and got " + features.element().describe(),
        "give a dict: Element::dict({{\"age\", ages}, ...})");
  }
  std::vector<std::string> names = form.feature_names;
  if (names.empty()) {
    names = features.keys();
    std::erase(names, form.weight_column.key());
  }
  std::ranges::sort(names);
  std::vector<std::pair<std::string, Column>> columns;
  for (const std::string& name : names) {
    if (!features.contains(name)) {
      throw unknown_name("the input", "feature", name, features.keys(),
                         "give every feature of the model");
    }
    const Value& value = features.value(name);
    if (!value.is_tensor()) {
      throw invalid_argument(
          fmt::format("the feature '{}' is {}; boosted trees ask numbers", name, value.describe()),
          "look strings up with StringLookup, or leave them out by feature_names");
    }
    const Tensor& given = value.tensor();
    if (given.dim() != 1 && given.dim() != 2) {
      throw invalid_argument(
          fmt::format("the feature '{}' is {}; it must be [rows] or [rows, width]", name,
                      value.describe()),
          "flatten it");
    }
    const int64_t width = given.dim() == 1 ? 1 : given.size(1);
    const DType dtype = fits_float(given.scalar_type()) ? kFloat32 : kFloat64;
    const Tensor values = given.to(dtype).reshape({given.size(0), width}).contiguous();
    for (int64_t i = 0; i < width; ++i)
      columns.emplace_back(column_name(name, width, i), Column{values, i});
  }
  if (columns.empty())
    throw invalid_argument("boosted trees got no features to ask",
                           "the input has " + features.element().describe());
  return columns;
}

std::vector<float> floats_of(const Tensor& values) {
  const Tensor flat = values.to(kFloat32).reshape({-1}).contiguous();
  return std::vector<float>(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
}

void check_rows(const char* what, const std::string& shape, int64_t count, int64_t rows) {
  if (count == rows) return;
  throw invalid_argument(fmt::format("{} are {} for {} examples; they must be [{}] or [{}, 1]",
                                     what, shape, rows, rows, rows),
                         "give one for each example");
}

float class_of(std::string_view label, const InputForm& form, int64_t row) {
  if (form.label_vocabulary.empty()) {
    throw invalid_argument(
        fmt::format("the label of row {} is the text '{}'", row, printable_beginning(label)),
        form.loss == Loss::kSquared ? "a regressor learns numbers"
                                    : "name the classes in label_vocabulary");
  }
  const auto found = std::ranges::find(form.label_vocabulary, label);
  if (found == form.label_vocabulary.end()) {
    throw invalid_argument(
        fmt::format("the label of row {} is '{}', which label_vocabulary lacks; "
                    "it has {}",
                    row, printable_beginning(label), join_quoted(form.label_vocabulary)),
        "name every class there");
  }
  return static_cast<float>(found - form.label_vocabulary.begin());
}

}  // namespace

int64_t outputs_of(const InputForm& form) {
  return form.loss == Loss::kSoftmax ? form.n_classes : int64_t{1};
}

void check_trees(const Ensemble& ensemble, const InputForm& form, const std::string& where) {
  if (ensemble.objective == loss_name(form.loss) && ensemble.outputs == outputs_of(form)) return;
  throw invalid_argument(
      fmt::format("{} holds trees of the objective \"{}\" for {} logits; those of this model are "
                  "\"{}\" and {}",
                  where, printable_beginning(ensemble.objective), ensemble.outputs,
                  loss_name(form.loss), outputs_of(form)),
      "use the estimator and the n_classes that trained it, or another model_dir");
}

std::vector<std::string> columns_of(const Features& features, const InputForm& form) {
  std::vector<std::string> names;
  for (const auto& [name, column] : all_columns(features, form)) {
    if (!is_utf8(name)) {
      throw invalid_argument(
          fmt::format("the feature '{}' has a name that is not UTF-8", printable_beginning(name)),
          "give it another key");
    }
    if (std::ranges::find(names, name) != names.end()) {
      throw invalid_argument(
          fmt::format("two columns of the input are called '{}'", name),
          "a feature of several values is \"x[0]\", \"x[1]\", ...: give the other "
          "one another key");
    }
    names.push_back(name);
  }
  return names;
}

std::string column_name(const std::string& feature, int64_t width, int64_t i) {
  return width == 1 ? feature : fmt::format("{}[{}]", feature, i);
}

std::string feature_of(const std::string& column) {
  const size_t bracket = column.ends_with(']') ? column.rfind('[') : std::string::npos;
  if (bracket == std::string::npos) return column;
  // "temp[C]" is the name of a feature.
  const std::string_view place(column.data() + bracket + 1, column.size() - bracket - 2);
  return parse_int(place) ? column.substr(0, bracket) : column;
}

std::vector<std::pair<std::string, double>> gains_by_feature(const Ensemble& ensemble) {
  const std::vector<double> gains = ensemble.gains();
  std::map<std::string, double> sums;
  for (size_t f = 0; f < gains.size(); ++f) sums[feature_of(ensemble.features[f])] += gains[f];
  std::vector<std::pair<std::string, double>> sorted(sums.begin(), sums.end());
  std::ranges::stable_sort(sorted, std::ranges::greater(), &std::pair<std::string, double>::second);
  return sorted;
}

namespace {

// The columns of a batch in this order.
std::vector<Column> ordered_columns(const Features& features,
                                    const std::vector<std::string>& columns,
                                    const InputForm& form) {
  const auto there = all_columns(features, form);
  std::vector<Column> ordered;
  for (const std::string& name : columns) {
    const auto found = std::ranges::find(there, name, &std::pair<std::string, Column>::first);
    if (found == there.end()) {
      std::vector<std::string> names;
      for (const auto& [known, column] : there) names.push_back(known);
      throw unknown_name("the input", "feature", name, names,
                         "give every feature that the model was trained on");
    }
    ordered.push_back(found->second);
  }
  return ordered;
}

template <typename Number>
void copy_column(const Column& column, int64_t width, double* out) {
  const int64_t rows = column.values.size(0), stride = column.values.size(1);
  const Number* in = column.values.data_ptr<Number>() + column.place;
  for (int64_t r = 0; r < rows; ++r) out[r * width] = static_cast<double>(in[r * stride]);
}

}  // namespace

std::vector<bool> may_be_in_double(const Features& features,
                                   const std::vector<std::string>& columns, const InputForm& form) {
  std::vector<bool> may;
  for (const Column& column : ordered_columns(features, columns, form))
    may.push_back(column.values.scalar_type() == kFloat64);
  return may;
}

Tensor matrix_of(const Features& features, const std::vector<std::string>& columns,
                 const InputForm& form) {
  const auto width = static_cast<int64_t>(columns.size());
  Tensor matrix = torch::empty({features.rows(), width}, kFloat64);
  auto* out = matrix.data_ptr<double>();
  for (const Column& column : ordered_columns(features, columns, form)) {
    if (column.values.scalar_type() == kFloat64) {
      copy_column<double>(column, width, out++);
    } else {
      copy_column<float>(column, width, out++);
    }
  }
  return matrix;
}

Tensor matrix_for(const Features& features, const Ensemble& ensemble, const InputForm& form) {
  Tensor matrix = matrix_of(features, ensemble.features, form);
  if (ensemble.in_double.empty()) return matrix.to(kFloat32).to(kFloat64);
  for (size_t f = 0; f < ensemble.features.size(); ++f) {
    if (ensemble.is_in_double(f)) continue;
    const Tensor column = matrix.select(1, static_cast<int64_t>(f));
    column.copy_(column.to(kFloat32));
  }
  return matrix;
}

std::vector<float> labels_of(const Batch& batch, const InputForm& form, int64_t first_row) {
  if (!batch.labels.defined())
    throw invalid_argument("boosted trees got no labels",
                           "give elements of (features, labels) to train and evaluate");
  const std::vector<Value>& values = batch.labels.element().values();
  if (values.size() != 1)
    throw invalid_argument(
        "the labels are " + batch.labels.element().describe() + "; boosted trees learn one label",
        "choose one of them in a map()");
  std::vector<float> labels;
  if (values[0].is_strings()) {
    const Strings& texts = values[0].strings();
    check_rows("labels", values[0].describe(), texts.size(), batch.rows());
    for (int64_t i = 0; i < texts.size(); ++i)
      labels.push_back(class_of(texts[i], form, first_row + i));
    return labels;
  }
  check_rows("labels", values[0].describe(), values[0].tensor().numel(), batch.rows());
  labels = floats_of(values[0].tensor());
  for (size_t i = 0; i < labels.size(); ++i) {
    const float label = labels[i];
    const int64_t row = first_row + static_cast<int64_t>(i);
    if (!std::isfinite(label))
      throw invalid_argument(fmt::format("the label of row {} is {}", row, label),
                             "filter() such rows out");
    if (form.loss == Loss::kSquared) continue;
    if (label < 0 || label >= static_cast<float>(form.n_classes) || label != std::floor(label)) {
      throw invalid_argument(
          fmt::format("the label of row {} is {}; it must be a whole number from 0 to {}", row,
                      label, form.n_classes - 1),
          "n_classes says how many there are");
    }
  }
  return labels;
}

std::vector<float> weights_of(const Features& features, const InputForm& form, int64_t first_row) {
  if (form.weight_column.empty()) return {};
  const std::string& key = form.weight_column.key();
  if (!features.contains(key))
    throw unknown_name("the input", "weight_column", key, features.keys());
  const Tensor given = form.weight_column.of(features).tensor();
  check_rows("weights", describe(given), given.numel(), features.rows());
  const std::vector<float> weights = floats_of(given);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (std::isfinite(weights[i]) && weights[i] >= 0) continue;
    throw invalid_argument(
        fmt::format("the weight of row {} in '{}' is {}; it must be 0 or more and finite",
                    first_row + static_cast<int64_t>(i), key, weights[i]));
  }
  return weights;
}

}  // namespace muster::inline v0_1::trees
