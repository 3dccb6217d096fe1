#include "muster/savedmodel/internal/example_features.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/savedmodel/internal/dtypes.h"
#include "muster/savedmodel/internal/nodes.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

using nlohmann::json;

// tf.Examples have float32, int64 and strings alone.
BundleDtype stored_dtype(const std::string& name) {
  if (name == "string") return kText;
  return name.starts_with("float") || name == "bfloat16" ? BundleDtype::kFloat : kId;
}

// Features that a column reads; `into` keeps those that it has.
void add_features(const json& recipe, ExampleFeatures& into) {
  const auto kind = recipe.at("kind").get<std::string>();
  const auto category = [&](const std::string& key, BundleDtype dtype) {
    into.try_emplace(key, ExampleFeature{.dtype = dtype, .is_category = true});
  };
  if (kind == "numbers") {
    ExampleFeature feature{.dtype = stored_dtype(recipe.at("dtype").get<std::string>()),
                           .shape = recipe.at("shape").get<Shape>()};
    const auto values = recipe.at("default").get<std::vector<double>>();
    if (!values.empty()) feature.default_value = torch::tensor(values, at::kDouble);
    into.try_emplace(recipe.at("key").get<std::string>(), std::move(feature));
  } else if (kind == "buckets") {
    add_features(recipe.at("numbers"), into);
  } else if (kind == "cross") {
    for (const json& key : recipe.at("keys")) {
      if (key.is_string()) {
        category(key.get<std::string>(), kText);
      } else {
        add_features(key, into);
      }
    }
  } else if (kind == "weighted") {
    add_features(recipe.at("categorical"), into);
    into.try_emplace(recipe.at("weights").get<std::string>(),
                     ExampleFeature{.dtype = stored_dtype(recipe.at("dtype").get<std::string>())});
  } else {
    category(recipe.at("key").get<std::string>(),
             recipe.contains("dtype") ? stored_dtype(recipe.at("dtype").get<std::string>()) : kId);
  }
}

// The default in the shape of the feature; an empty vector if there is none.
std::string default_of(const ExampleFeature& feature, TensorflowGraph& graph) {
  const DType dtype = feature.dtype == kId ? at::kLong : at::kFloat;
  if (!feature.default_value.defined()) return graph.constant(feature.dtype, {0}, "");
  Tensor values = feature.default_value.to(dtype);
  values = values.numel() == 1 ? values.reshape({}).expand(*feature.shape)
                               : values.reshape(*feature.shape);
  values = values.contiguous();
  return graph.constant(feature.dtype, *feature.shape,
                        {static_cast<const char*>(values.data_ptr()), values.nbytes()});
}

// Rows of values of any number, as dense as the longest, and at least one wide.
std::string dense_values(const ExampleFeature& feature, const std::string& indices,
                         const std::string& values, const std::string& sizes,
                         TensorflowGraph& graph) {
  const Nodes nodes(graph);
  std::string marked = values, other;
  if (feature.dtype == kText) {
    marked =
        nodes.where(nodes.test("Equal", {values, nodes.text("")}), nodes.text(kEmptyText), values);
    other = nodes.text(kMissingText);
  } else if (feature.is_category) {
    marked =
        nodes.where(nodes.test("Equal", {values, nodes.int64(-1)}), nodes.int64(kMinusOne), values);
    other = nodes.int64(-1);
  } else {
    other = graph.scalar(0, feature.dtype);
  }
  return nodes.dense(indices, nodes.of_same("Maximum", {sizes, graph.int64s({0, 1})}), marked,
                     other);
}

// The operation's outputs for features of any number of values.
struct SparseFeature {
  std::string indices{}, values{}, sizes{};
};

class Parser {
 public:
  Parser(const ExampleFeatures& features, TensorflowGraph& graph)
      : features_(features), graph_(graph), nodes_(graph) {
    for (const auto& [key, feature] : features) (feature.shape ? fixed_ : sparse_).push_back(key);
  }

  std::map<std::string, std::string> parse(const std::string& serialized, const json& recipe) {
    add_node(serialized);
    std::map<std::string, std::string> values = dense_;
    for (const json& column : recipe) {
      if (column.at("kind") == "weighted") check_weights(column);
    }
    for (const auto& [key, sparse] : found_) {
      values[key] =
          dense_values(features_.at(key), sparse.indices, sparse.values, sparse.sizes, graph_);
    }
    return values;
  }

 private:
  void add_node(const std::string& serialized) {
    const auto count = [](const auto& keys) { return static_cast<int64_t>(keys.size()); };
    std::vector<std::string> inputs{serialized, graph_.texts({0}, {}),
                                    graph_.texts({count(sparse_)}, sparse_),
                                    graph_.texts({count(fixed_)}, fixed_), graph_.texts({0}, {})};
    std::vector<BundleDtype> sparse_types, fixed_types, outputs;
    std::vector<std::vector<int64_t>> shapes;
    for (const std::string& key : sparse_) sparse_types.push_back(features_.at(key).dtype);
    for (const std::string& key : fixed_) {
      const ExampleFeature& feature = features_.at(key);
      fixed_types.push_back(feature.dtype);
      shapes.push_back(*feature.shape);
      inputs.push_back(default_of(feature, graph_));
    }
    outputs.insert(outputs.end(), sparse_.size(), kId);
    outputs.insert(outputs.end(), sparse_types.begin(), sparse_types.end());
    outputs.insert(outputs.end(), sparse_.size(), kId);
    outputs.insert(outputs.end(), fixed_types.begin(), fixed_types.end());
    const auto results = graph_.add_with_outputs("ParseExampleV2", inputs,
                                                 {{"num_sparse", integer_value(count(sparse_))},
                                                  {"sparse_types", type_values(sparse_types)},
                                                  {"ragged_value_types", type_values({})},
                                                  {"ragged_split_types", type_values({})},
                                                  {"Tdense", type_values(fixed_types)},
                                                  {"dense_shapes", shape_values(shapes)}},
                                                 outputs);
    const size_t n = sparse_.size();
    for (size_t i = 0; i < n; ++i)
      found_[sparse_[i]] = {results[i], results[n + i], results[2 * n + i]};
    for (size_t i = 0; i < fixed_.size(); ++i) dense_[fixed_[i]] = results[3 * n + i];
  }

  // Each value has a weight.
  void check_weights(const json& column) {
    const json& inner = column.at("categorical");
    const auto weights = column.at("weights").get<std::string>();
    if (!inner.contains("key")) return;
    const auto key = inner.at("key").get<std::string>();
    const auto values = found_.find(key);
    const auto given = found_.find(weights);
    if (values == found_.end() || given == found_.end()) return;
    given->second.values = nodes_.checked(
        given->second.values,
        nodes_.all(nodes_.test("Equal", {values->second.indices, given->second.indices}), 2),
        "the feature '" + key + "' has a weight '" + weights + "' for each value");
  }

  const ExampleFeatures& features_;
  TensorflowGraph& graph_;
  const Nodes nodes_;
  std::vector<std::string> sparse_, fixed_;  // keys
  std::map<std::string, SparseFeature> found_;
  std::map<std::string, std::string> dense_;
};

}  // namespace

ExampleFeatures example_features(const json& recipe,
                                 const std::optional<data::FeatureSpec>& parsing) {
  ExampleFeatures features;
  for (const auto& [key, feature] : parsing.value_or(data::FeatureSpec())) {
    const auto& fixed = std::get<data::FixedLenFeature>(feature);
    features[key] = {.dtype = tensorflow_dtype(std::get<DType>(fixed.dtype)), .shape = fixed.shape};
    if (fixed.default_value) features[key].default_value = fixed.default_value->tensor();
  }
  for (const json& column : recipe) add_features(column, features);
  return features;
}

std::map<std::string, std::string> parse_examples(const ExampleFeatures& features,
                                                  const std::string& serialized, const json& recipe,
                                                  TensorflowGraph& graph) {
  return Parser(features, graph).parse(serialized, recipe);
}

}  // namespace muster::inline v0_1::saved_model::internal
