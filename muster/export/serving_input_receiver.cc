#include "muster/export/serving_input_receiver.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

bool is_number(DType dtype) {
  return at::isFloatingType(dtype) || at::isIntegralType(dtype, /*includeBool=*/true);
}

// Whether the tensor has this shape, where -1 is any size except 0.
bool fits(const Tensor& tensor, const Shape& shape) {
  if (tensor.dim() != static_cast<int64_t>(shape.size())) return false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t size = tensor.size(static_cast<int64_t>(axis));
    if (shape[axis] < 0 ? size == 0 : size != shape[axis]) return false;
  }
  return true;
}

void check_feature(const std::string& name, const ServingFeature& feature) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw invalid_argument(
        fmt::format("a serving input receiver: the feature \"{}\" {}", name, what), hint);
  };
  if (name.empty()) refuse("has no name", "the model function finds its features by name");
  if (!is_number(feature.dtype)) {
    refuse("is of dtype " + dtype_name(feature.dtype), "floats, integers and bool are taken");
  }
  Shape rows{-1};
  rows.insert(rows.end(), feature.shape.begin(), feature.shape.end());
  for (const int64_t size : feature.shape) {
    if (size < -1) {
      refuse("has the shape " + describe(feature.shape),
             "the size of an axis is 0 or more, or -1 if a request chooses it");
    }
  }
  if (feature.texts) {
    const std::vector<std::string>& words = feature.texts->words;
    if (feature.dtype != at::kLong || words.empty()) {
      refuse(words.empty() ? "takes texts, and has no words"
                           : "takes texts, and is of dtype " + dtype_name(feature.dtype),
             "words become ids, which are kInt64");
    }
    std::set<std::string_view> different(words.begin(), words.end());
    if (different.size() != words.size()) refuse("has a word twice", "each word must occur once");
  }
  if (feature.may_be_missing && feature.dtype != at::kFloat && feature.dtype != at::kDouble) {
    refuse("may be missing, and is of dtype " + dtype_name(feature.dtype),
           "what is missing is NaN, of kFloat32 or kFloat64");
  }
  if (!feature.example) return;
  const Tensor& example = *feature.example;
  if (example.defined() && example.scalar_type() == feature.dtype && fits(example, rows)) return;
  refuse("has the example " + describe(example), "it is one row or more, " +
                                                     dtype_name(feature.dtype) + describe(rows) +
                                                     ", and no axis is empty");
}

ServingFeature parsed_feature(const std::string& key, const auto& feature) {
  const auto* fixed = std::get_if<data::FixedLenFeature>(&feature);
  const DType* dtype = fixed == nullptr ? nullptr : std::get_if<DType>(&fixed->dtype);
  if (dtype == nullptr) {
    throw invalid_argument(
        fmt::format("parsing_serving_input_receiver: the feature \"{}\" is {}", key,
                    fixed == nullptr ? "not a FixedLenFeature" : "of strings"),
        "an exported model takes FixedLenFeatures of kFloat32 and kInt64; for "
        "others, feature_column::serving_input_receiver(columns) has columns "
        "read them");
  }
  return {.dtype = *dtype, .shape = fixed->shape};
}

}  // namespace

ServingInputReceiver raw_serving_input_receiver(std::map<std::string, ServingFeature> features) {
  if (features.empty()) {
    throw invalid_argument("a serving input receiver: there is no feature",
                           "name what the model function takes: {{\"x\", {kFloat32, {10}}}}");
  }
  for (const auto& [name, feature] : features) check_feature(name, feature);
  return {.features = std::move(features)};
}

ServingInputReceiver parsing_serving_input_receiver(const data::FeatureSpec& spec) {
  std::map<std::string, ServingFeature> features;
  for (const auto& [key, feature] : spec) features[key] = parsed_feature(key, feature);
  (void)data::ExampleParser(spec);  // checks the rest
  ServingInputReceiver receiver = raw_serving_input_receiver(std::move(features));
  receiver.parsing = spec;
  return receiver;
}

}  // namespace muster::inline v0_1
