#include "muster/canned/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/canned/internal/linear_part.h"
#include "muster/features/seen_values.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::SeenValues;

const std::string kModel = internal::LinearPart::kModelScope;
constexpr std::string_view kWeights = "/weights";

// The columns that the linear model of a checkpoint has weights for.
std::vector<std::string> columns_in(const Estimator& estimator) {
  std::vector<std::string> names;
  for (const std::string& name : estimator.get_variable_names()) {
    if (!name.starts_with(kModel) || !name.ends_with(kWeights)) continue;
    names.push_back(name.substr(kModel.size(), name.size() - kModel.size() - kWeights.size()));
  }
  return names;
}

SeenValues seen_in(const InputFn& data, const std::vector<FeatureColumn>& columns) {
  SeenValues seen(columns);
  if (!data) return seen;
  const Dataset dataset = data({});
  if (dataset.cardinality() == kInfinite) {
    throw invalid_argument("explain got data without end: " + dataset.describe(),
                           "leave repeat() out, or take() a part");
  }
  const auto iterator = dataset.iterator();
  while (const auto batch = iterator->next()) seen.add(*batch);
  return seen;
}

// "bucket 7: Paris, Rome"
std::string with_seen(const std::string& name,
                      const std::vector<std::pair<std::string, int64_t>>& values, int64_t most) {
  if (values.empty()) return name;
  std::vector<std::string> shown;
  for (const auto& [value, count] : values) {
    if (static_cast<int64_t>(shown.size()) == most) break;
    shown.push_back(value);
  }
  const size_t left = values.size() - shown.size();
  return name + ": " + join(shown, ", ") + (left == 0 ? "" : fmt::format(" and {} more", left));
}

void check(const std::vector<FeatureColumn>& columns, const ExplainOptions& options) {
  if (columns.empty())
    throw invalid_argument("explain got no columns", "give it those of the linear model");
  if (options.most_values < 1) {
    throw invalid_argument(
        fmt::format("explain got most_values = {}; it must be at least 1", options.most_values));
  }
}

// The names of the logits: "" for one.
std::vector<std::string> outputs_of(const Tensor& bias, const std::vector<std::string>& classes) {
  const auto count = static_cast<size_t>(bias.numel());
  if (count == 1) return {""};
  if (!classes.empty() && classes.size() != count) {
    throw invalid_argument(
        fmt::format("explain got {} classes, and the model has {} logits", classes.size(), count),
        "name each class, in the order of the label_vocabulary");
  }
  std::vector<std::string> outputs = classes;
  for (size_t i = outputs.size(); i < count; ++i) outputs.push_back(std::to_string(i));
  return outputs;
}

}  // namespace

Explanation explain(const Estimator& estimator, const std::vector<FeatureColumn>& columns,
                    const ExplainOptions& options) {
  check(columns, options);
  const std::vector<std::string> known = columns_in(estimator);
  if (known.empty()) {
    throw invalid_argument(estimator.model_dir() + " holds no linear model",
                           "explain() is for Linear* and DNNLinearCombined*; "
                           "permutation_importance() is for every model");
  }
  std::vector<std::vector<std::string>> names;
  for (const FeatureColumn& column : columns) {
    if (std::ranges::find(known, column.name()) == known.end())
      throw unknown_name("the linear model", "column", column.name(), known);
    names.push_back(column.value_names());
  }
  const SeenValues seen = seen_in(options.data, columns);

  const Tensor bias = estimator.get_variable_value(kModel + "bias_weights").to(kFloat64);
  const std::vector<std::string> outputs = outputs_of(bias, options.classes);
  Explanation result{.measures = {"weight"}};
  const auto add = [&](const std::string& column, const std::string& value, const Tensor& row) {
    for (size_t k = 0; k < outputs.size(); ++k)
      result.rows.push_back({column, value, outputs[k], {row.data_ptr<double>()[k]}});
  };
  add(kBiasRow, "", bias.contiguous());
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = columns[i].name();
    const Tensor weights = estimator.get_variable_value(kModel + name + std::string(kWeights))
                               .to(kFloat64)
                               .contiguous();
    if (weights.size(0) != static_cast<int64_t>(names[i].size())) {
      throw invalid_argument(
          fmt::format("the column '{}' has {} values, and the model {} weights for it", name,
                      names[i].size(), weights.size(0)),
          "give the columns that it was trained with");
    }
    for (int64_t place = 0; place < weights.size(0); ++place) {
      add(name,
          with_seen(names[i][static_cast<size_t>(place)], seen.in_bucket(name, place),
                    options.most_values),
          weights[place]);
    }
  }
  result.sort_by_size();
  return result;
}

}  // namespace muster::inline v0_1
