#include "muster/trees/internal/servable_trees.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/tensor/libtorch.h"
#include "muster/trees/internal/outputs.h"

namespace muster::inline v0_1::trees {
namespace {

// The nodes of all trees, one after another. A leaf leads to itself.
struct NodeTensors {
  Tensor roots;                   // int64 [trees]
  Tensor feature, left, right;    // int64 [nodes]
  Tensor threshold;               // [nodes], of the dtype that is compared
  Tensor category, missing_left;  // bool [nodes]
  Tensor value;                   // float64 [nodes]
  Tensor bias;                    // float64 [outputs]
  int64_t depth = 0;
  int64_t outputs = 1;

  explicit NodeTensors(const Ensemble& ensemble) : outputs(ensemble.outputs) {
    std::vector<int64_t> root, features, lefts, rights;
    std::vector<double> thresholds;
    std::vector<uint8_t> categories, missing;
    std::vector<double> values;
    for (const Tree& tree : ensemble.trees) {
      const auto first = static_cast<int64_t>(features.size());
      root.push_back(first);
      depth = std::max(depth, tree.depth());
      for (const Node& node : tree.nodes) {
        const auto own = static_cast<int64_t>(features.size());
        const bool leaf = node.feature < 0;
        features.push_back(leaf ? 0 : node.feature);
        lefts.push_back(leaf ? own : first + node.left);
        rights.push_back(leaf ? own : first + node.right);
        thresholds.push_back(node.threshold);
        categories.push_back(node.category ? 1 : 0);
        missing.push_back(node.missing_left ? 1 : 0);
        values.push_back(node.value);
      }
    }
    roots = torch::tensor(root, kInt64);
    feature = torch::tensor(features, kInt64);
    left = torch::tensor(lefts, kInt64);
    right = torch::tensor(rights, kInt64);
    threshold = torch::tensor(thresholds, kFloat64);
    if (ensemble.in_double.empty()) threshold = threshold.to(kFloat32);
    category = torch::tensor(categories, kUInt8).to(at::kBool);
    missing_left = torch::tensor(missing, kUInt8).to(at::kBool);
    value = torch::tensor(values, kFloat64);
    bias = torch::tensor(ensemble.bias, kFloat64);
  }

  std::vector<std::pair<std::string, Tensor>> by_name() const {
    const std::string prefix = "boosted_trees/";
    return {{prefix + "roots", roots},
            {prefix + "feature", feature},
            {prefix + "left", left},
            {prefix + "right", right},
            {prefix + "threshold", threshold},
            {prefix + "category", category},
            {prefix + "missing_left", missing_left},
            {prefix + "value", value},
            {prefix + "bias", bias}};
  }

  // float32 [rows, outputs] of [rows, features], of the dtype of the thresholds.
  Tensor logits(const Tensor& matrix) const {
    // [rows, trees], without a fixed number of rows.
    Tensor at = matrix.narrow(1, 0, 1).isnan().to(kInt64) * 0 + roots;
    for (int64_t layer = 0; layer < depth; ++layer) {
      const Tensor x = matrix.gather(1, feature.take(at));
      const Tensor limit = threshold.take(at);
      const Tensor goes_left =
          torch::where(x.isnan(), missing_left.take(at),
                       torch::where(category.take(at), x == limit, x <= limit));
      at = torch::where(goes_left, left.take(at), right.take(at));
    }
    const auto rounds = roots.numel() / outputs;
    return (value.take(at).unflatten(1, {rounds, outputs}).sum(1) + bias).to(kFloat32);
  }
};

// The columns of a row: which feature each is of, and its place in that.
struct Place {
  std::string feature{};
  int64_t place = 0;
  bool in_double = false;
};

std::vector<Place> places_of(const Ensemble& ensemble, const ServingInputReceiver& receiver,
                             const InputForm& form) {
  std::map<std::string, Place> there;
  std::vector<std::string> names;
  for (const auto& [name, feature] : receiver.features) {
    if (name == form.weight_column.key()) continue;
    if (feature.shape.size() > 1) {
      throw invalid_argument(
          "the feature '" + name + "' of the receiver has the shape " + describe(feature.shape),
          "trees take [rows] or [rows, width]: give the shape {} or {width}");
    }
    const int64_t width = feature.shape.empty() ? 1 : feature.shape.front();
    for (int64_t i = 0; i < width; ++i) {
      names.push_back(column_name(name, width, i));
      there[names.back()] = {name, i};
    }
  }
  std::vector<Place> places;
  for (const std::string& column : ensemble.features) {
    const auto found = there.find(column);
    if (found == there.end()) {
      throw unknown_name("the receiver", "feature", column, names,
                         "give it every feature that the trees were trained on");
    }
    places.push_back(found->second);
    if (!ensemble.is_in_double(places.size() - 1)) continue;
    places.back().in_double = true;
    const DType dtype = receiver.features.at(places.back().feature).dtype;
    if (dtype == kFloat64 || dtype == kInt64) continue;
    throw invalid_argument(
        fmt::format("the receiver takes '{}' as {}, and the trees tell numbers of '{}' apart that "
                    "this dtype does not",
                    places.back().feature, dtype_name(dtype), column),
        "give the feature the dtype kFloat64 or kInt64");
  }
  for (const std::string& name : names) {
    if (std::ranges::find(ensemble.features, name) == ensemble.features.end())
      throw unknown_name("the model", "feature", name, ensemble.features,
                         "leave it out of the receiver");
  }
  return places;
}

Tensor matrix_of(const std::vector<Place>& places, const ServableSource::Tensors& features,
                 DType dtype) {
  std::vector<Tensor> columns;
  for (const Place& place : places) {
    Tensor given = features.at(place.feature);
    if (!place.in_double) given = given.to(kFloat32);
    if (dtype != kFloat32) given = given.to(dtype);
    columns.push_back(given.dim() == 1 ? given.unsqueeze(1) : given.narrow(1, place.place, 1));
  }
  return torch::cat(columns, 1);
}

std::map<std::string, ExportOutput> signatures_of(const InputForm& form, const Tensor& logits) {
  const Prediction::Outputs all = predictions_of(form.loss, logits);
  std::map<std::string, ExportOutput> signatures{{"predict", PredictOutput(all)}};
  if (form.loss == Loss::kSquared) {
    signatures["regression"] = RegressionOutput(all.at("predictions"));
    signatures[kServingDefault] = signatures.at("regression");
    return signatures;
  }
  signatures["classification"] =
      ClassificationOutput(all.at("probabilities"), form.label_vocabulary);
  signatures[kServingDefault] = signatures.at("classification");
  if (form.loss == Loss::kLogistic) signatures["regression"] = RegressionOutput(all.at("logistic"));
  return signatures;
}

}  // namespace

ServableSource servable_of(const Ensemble& ensemble, const InputForm& form,
                           const ServingInputReceiver& receiver, int64_t global_step,
                           const std::string& checkpoint) {
  const auto nodes = std::make_shared<const NodeTensors>(ensemble);
  return {
      .function =
          [nodes, form,
           places = places_of(ensemble, receiver, form)](const ServableSource::Tensors& features) {
            return signatures_of(
                form, nodes->logits(matrix_of(places, features, nodes->threshold.scalar_type())));
          },
      .receiver = receiver,
      .weights = nodes->by_name(),
      .global_step = global_step,
      .checkpoint = checkpoint};
}

}  // namespace muster::inline v0_1::trees
