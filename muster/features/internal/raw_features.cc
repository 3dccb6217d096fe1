#include "muster/features/internal/raw_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/features/parse_spec.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column::internal {
namespace {

// The dtype that tf.Examples hold in place of this one.
data::FeatureDType parsed_dtype(const data::FeatureDType& dtype) {
  const DType* numbers = std::get_if<DType>(&dtype);
  if (numbers == nullptr) return dtype;
  return at::isFloatingType(*numbers) ? kFloat32 : kInt64;
}

RawFeature raw(const data::FeatureDType& dtype, Shape of_example) {
  RawFeature feature{.shape = std::move(of_example)};
  feature.shape.insert(feature.shape.begin(), -1);
  if (const DType* numbers = std::get_if<DType>(&dtype)) {
    feature.dtype = *numbers;
  } else {
    feature.is_text = true;
  }
  return feature;
}

std::optional<data::ExampleParser> parser_of(const std::vector<FeatureColumn>& columns,
                                             const std::map<std::string, RawFeature>& features,
                                             const std::optional<data::FeatureSpec>& numbers) {
  if (!numbers) return std::nullopt;
  data::FeatureSpec spec = *numbers;
  for (auto& [key, feature] : feature_column::make_parse_example_spec(columns)) {
    if (auto* values = std::get_if<data::VarLenFeature>(&feature))
      values->dtype = parsed_dtype(values->dtype);
    spec.emplace(key, feature);
  }
  for (const auto& [key, feature] : features) {
    if (!spec.contains(key)) return std::nullopt;
  }
  return data::ExampleParser(spec);
}

// Rows as wide as the module takes them: a missing value is id -1, of weight 0.
Tensor widened(const std::string& name, const Tensor& rows, const TensorInfo& info) {
  const int64_t width = rows.size(1), takes = info.shape[1];
  if (width == takes) return rows;
  if (width > takes) {
    throw invalid_argument(
        fmt::format("the model takes {} value{} of one example for \"{}\", and {} are given", takes,
                    takes == 1 ? "" : "s", name, width),
        fmt::format("export it with receiver.features[\"{}\"].shape = {{{}}}", name, width));
  }
  return at::constant_pad_nd(rows, {0, takes - width},
                             rows.is_floating_point() ? at::Scalar(0) : at::Scalar(-1));
}

}  // namespace

RawFeatures::RawFeatures(const std::vector<FeatureColumn>& columns,
                         const std::map<std::string, TensorInfo>& inputs,
                         const std::optional<data::FeatureSpec>& numbers)
    : inputs_(inputs), resolve_(feature_column::resolve(columns)) {
  std::set<std::string> made;
  std::map<std::string, int64_t> widths;  // of values, by the feature's key
  for (const FeatureColumn& column : columns) {
    const feature_column::ResolvedColumn resolved = feature_column::resolved_column(column);
    for (const auto& entry : resolved.entries) made.insert(entry.key);
    // A combination says nothing of how many values each of its keys has.
    if (resolved.crosses) continue;
    const auto found = inputs.find(resolved.entries.front().key);
    if (found == inputs.end()) continue;
    for (const auto& [key, feature] : feature_column::make_parse_example_spec({column}))
      widths[key] = std::max(widths[key], found->second.shape.at(1));
  }
  for (const auto& [key, feature] : feature_column::make_parse_example_spec(columns)) {
    if (const auto* fixed = std::get_if<data::FixedLenFeature>(&feature)) {
      features_[key] = raw(fixed->dtype, fixed->shape);
    } else if (const auto* values = std::get_if<data::VarLenFeature>(&feature)) {
      const auto width = widths.find(key);
      features_[key] = raw(values->dtype, {width == widths.end() ? 1 : width->second});
    }
  }
  for (const auto& [name, info] : inputs) {
    if (!made.contains(name)) features_[name] = {.dtype = info.dtype, .shape = info.shape};
  }
  parser_ = parser_of(columns, features_, numbers);
}

void RawFeatures::check(const Element& batch) const {
  if (batch.structure().kind != Structure::Kind::kDict) {
    throw invalid_argument(fmt::format("the features are {}", batch.describe()),
                           "give them by name, as a dict");
  }
  std::vector<std::string> names;
  for (const auto& [name, feature] : features_) names.push_back(name);
  const std::vector<std::string>& given = batch.structure().keys;
  for (const std::string& key : given) {
    if (!features_.contains(key)) throw unknown_name("the model", "feature", key, names);
  }
  for (const auto& [name, feature] : features_) {
    if (std::ranges::find(given, name) == given.end()) {
      throw invalid_argument(
          fmt::format("the feature '{}' is missing, {}", name, feature.describe()),
          "the model takes " + join_quoted(names));
    }
    const auto value = batch.at(name).value();
    if (value.is_strings() == feature.is_text) continue;
    throw invalid_argument(fmt::format("the feature '{}' is {}, expected {}", name,
                                       value.describe(), feature.describe()));
  }
}

RawFeatures::Tensors RawFeatures::inputs_of(const Element& batch) const {
  const Element resolved = resolve_(batch);
  Tensors inputs;
  for (const auto& [name, info] : inputs_) {
    Tensor given = resolved.at(name).value().tensor();
    if (features_.contains(name)) {
      // One number of each example may be without an axis of its own.
      if (given.dim() == 1 && info.shape == Shape{-1, 1}) given = given.unsqueeze(1);
      inputs[name] = given.to(info.dtype);
    } else {
      inputs[name] = widened(name, given, info);
    }
  }
  return inputs;
}

}  // namespace muster::inline v0_1::feature_column::internal
