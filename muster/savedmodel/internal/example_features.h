// Serialized tf.Examples as the features of a request. For sources alone. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/example.h"
#include "muster/savedmodel/internal/tensorflow_graph.h"

namespace muster::inline v0_1::saved_model::internal {

// How a feature is stored in tf.Examples.
struct ExampleFeature {
  BundleDtype dtype = BundleDtype::kFloat;  // kFloat, kInt64 or kString
  // The shape in one example; unset: any number of values.
  std::optional<std::vector<int64_t>> shape{};
  // The values for an example without the feature; undefined: an error.
  Tensor default_value{};
  // Whether the values are categories, so that missing ones are marked.
  bool is_category = false;
};
using ExampleFeatures = std::map<std::string, ExampleFeature>;

// What columns with this recipe (muster/features/recipe.h) and the numbers of `parsing` read.
ExampleFeatures example_features(const nlohmann::json& recipe,
                                 const std::optional<data::FeatureSpec>& parsing);

// A request gives categories as dense values [rows, values], where "" and -1 mean that there is no
// value. A tf.Example says itself how many values it has, and "" and -1 may be among them. These
// stand for such a value, and for no value of an example.
inline constexpr const char* kEmptyText = "\xff\xfe empty";
inline constexpr const char* kMissingText = "\xff\xfe missing";
inline constexpr int64_t kMinusOne = std::numeric_limits<int64_t>::min();

// Adds the node that parses `serialized`, string [rows], and returns the values of each feature:
// [rows, shape...], or [rows, values of the longest example]. Categories are marked as above; other
// values that an example lacks are 0.
std::map<std::string, std::string> parse_examples(const ExampleFeatures& features,
                                                  const std::string& serialized,
                                                  const nlohmann::json& recipe,
                                                  TensorflowGraph& graph);

}  // namespace muster::inline v0_1::saved_model::internal
