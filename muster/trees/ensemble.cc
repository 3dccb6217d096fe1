#include "muster/trees/ensemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::trees {
namespace {

constexpr const char* kPrefix = "boosted_trees/";
constexpr const char* kNote = "boosted_trees";
constexpr uint8_t kCategory = 1, kMissingLeft = 2;

template <typename T>
Tensor tensor_of(const std::vector<T>& values, DType dtype) {
  Tensor made = torch::empty({static_cast<int64_t>(values.size())}, dtype);
  std::ranges::copy(values, made.data_ptr<T>());
  return made;
}

template <typename T>
std::vector<T> values_of(const Checkpoint& checkpoint, const std::string& name, DType dtype,
                         const std::string& where) {
  const auto found = checkpoint.tensors.find(kPrefix + name);
  if (found == checkpoint.tensors.end() || found->second.scalar_type() != dtype ||
      found->second.dim() != 1) {
    throw invalid_argument(
        fmt::format("{} holds no boosted trees: {}{} is missing, or no list of {}", where, kPrefix,
                    name, dtype_name(dtype)),
        "give the model_dir of a BoostedTreesClassifier or BoostedTreesRegressor");
  }
  const Tensor values = found->second.contiguous();
  const T* data = values.data_ptr<T>();
  return std::vector<T>(data, data + values.numel());
}

// Children stand after their parents, so every walk ends.
void check(const Tree& tree, size_t features, const std::string& where) {
  const auto size = static_cast<int32_t>(tree.nodes.size());
  for (int32_t i = 0; i < size; ++i) {
    const Node& node = tree.nodes[static_cast<size_t>(i)];
    if (node.feature == -1) continue;
    const bool known = node.feature >= 0 && static_cast<size_t>(node.feature) < features;
    if (!known || node.left <= i || node.right <= i || node.left >= size || node.right >= size)
      throw corrupt(fmt::format("{} holds a tree whose node {} leads nowhere", where, i));
  }
  if (size == 0) throw corrupt(where + " holds a tree without nodes");
}

}  // namespace

int64_t Tree::depth() const {
  std::vector<int64_t> depths(nodes.size(), 0);
  int64_t deepest = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    deepest = std::max(deepest, depths[i]);
    if (nodes[i].feature < 0) continue;
    depths[static_cast<size_t>(nodes[i].left)] = depths[i] + 1;
    depths[static_cast<size_t>(nodes[i].right)] = depths[i] + 1;
  }
  return deepest;
}

void Ensemble::add_logits(const double* row, double* logits, size_t first) const {
  if (first == 0) {
    for (size_t k = 0; k < bias.size(); ++k) logits[k] += bias[k];
  }
  const auto width = static_cast<size_t>(outputs);
  for (size_t t = first; t < trees.size(); ++t)
    logits[t % width] += trees[t].nodes[static_cast<size_t>(trees[t].leaf(row))].value;
}

void Ensemble::explain(const double* row, double* base, double* contributions) const {
  const auto width = static_cast<size_t>(outputs);
  std::ranges::copy(bias, base);
  std::fill_n(contributions, features.size() * width, 0.0);
  for (size_t t = 0; t < trees.size(); ++t) {
    const std::vector<Node>& nodes = trees[t].nodes;
    const size_t k = t % width;
    base[k] += nodes[0].value;
    for (size_t at = 0; nodes[at].feature >= 0;) {
      const Node& node = nodes[at];
      const int32_t next = node.goes_left(row[node.feature]) ? node.left : node.right;
      at = static_cast<size_t>(next);
      contributions[static_cast<size_t>(node.feature) * width + k] += nodes[at].value - node.value;
    }
  }
}

std::vector<double> Ensemble::gains() const {
  std::vector<double> sums(features.size(), 0.0);
  for (const Tree& tree : trees) {
    for (const Node& node : tree.nodes)
      if (node.feature >= 0) sums[static_cast<size_t>(node.feature)] += node.gain;
  }
  return sums;
}

Checkpoint Ensemble::to_checkpoint(int64_t global_step) const {
  std::vector<int32_t> sizes, feature, left, right;
  std::vector<double> threshold;
  std::vector<uint8_t> flags;
  std::vector<double> gain, value;
  for (const Tree& tree : trees) {
    sizes.push_back(static_cast<int32_t>(tree.nodes.size()));
    for (const Node& node : tree.nodes) {
      feature.push_back(node.feature);
      left.push_back(node.left);
      right.push_back(node.right);
      threshold.push_back(node.threshold);
      flags.push_back(static_cast<uint8_t>((node.category ? kCategory : 0) |
                                           (node.missing_left ? kMissingLeft : 0)));
      gain.push_back(node.gain);
      value.push_back(node.value);
    }
  }
  const std::string prefix = kPrefix;
  Checkpoint checkpoint{.global_step = global_step};
  checkpoint.tensors = {
      {prefix + "tree_sizes", tensor_of(sizes, kInt32)},
      {prefix + "feature", tensor_of(feature, kInt32)},
      {prefix + "left", tensor_of(left, kInt32)},
      {prefix + "right", tensor_of(right, kInt32)},
      {prefix + "threshold", in_double.empty() ? tensor_of(threshold, kFloat64).to(kFloat32)
                                               : tensor_of(threshold, kFloat64)},
      {prefix + "flags", tensor_of(flags, kUInt8)},
      {prefix + "gain", tensor_of(gain, kFloat64)},
      {prefix + "value", tensor_of(value, kFloat64)},
      {prefix + "bias", tensor_of(bias, kFloat64)}};
  nlohmann::json note{{"features", features}, {"objective", objective}};
  if (!in_double.empty()) note["in_double"] = in_double;
  checkpoint.notes[kNote] = note.dump();
  return checkpoint;
}

Ensemble Ensemble::from_checkpoint(const Checkpoint& checkpoint, const std::string& name) {
  const auto sizes = values_of<int32_t>(checkpoint, "tree_sizes", kInt32, name);
  const auto feature = values_of<int32_t>(checkpoint, "feature", kInt32, name);
  const auto left = values_of<int32_t>(checkpoint, "left", kInt32, name);
  const auto right = values_of<int32_t>(checkpoint, "right", kInt32, name);
  const auto flags = values_of<uint8_t>(checkpoint, "flags", kUInt8, name);
  const auto gain = values_of<double>(checkpoint, "gain", kFloat64, name);
  const auto value = values_of<double>(checkpoint, "value", kFloat64, name);
  Ensemble ensemble;
  ensemble.bias = values_of<double>(checkpoint, "bias", kFloat64, name);
  ensemble.outputs = static_cast<int64_t>(ensemble.bias.size());
  const auto note = checkpoint.notes.find(kNote);
  if (note == checkpoint.notes.end() || ensemble.outputs == 0)
    throw corrupt(name + " does not say which features its trees ask");
  const nlohmann::json said = parse_json(note->second, name, ErrorKind::kCorrupt).value();
  if (!said.is_object() || !said.contains("features") || !said["features"].is_array())
    throw corrupt(name + " does not say which features its trees ask");
  for (const nlohmann::json& entry : said["features"]) {
    if (!entry.is_string()) throw corrupt(name + " has a feature whose name is not text");
    ensemble.features.push_back(entry.get<std::string>());
  }
  if (const auto in_double = said.find("in_double"); in_double != said.end()) {
    const bool fits =
        in_double->is_array() && in_double->size() == ensemble.features.size() &&
        std::ranges::all_of(*in_double, [](const auto& one) { return one.is_boolean(); });
    if (!fits) throw corrupt(name + " does not say which of its features are doubles");
    ensemble.in_double = in_double->get<std::vector<bool>>();
  }
  std::vector<double> threshold;
  if (ensemble.in_double.empty()) {
    const auto floats = values_of<float>(checkpoint, "threshold", kFloat32, name);
    threshold.assign(floats.begin(), floats.end());
  } else {
    threshold = values_of<double>(checkpoint, "threshold", kFloat64, name);
  }
  if (const auto objective = said.find("objective"); objective != said.end()) {
    if (!objective->is_string()) throw corrupt(name + " has an objective whose name is not text");
    ensemble.objective = objective->get<std::string>();
  }
  size_t at = 0;
  for (const int32_t size : sizes) {
    const size_t end = at + static_cast<size_t>(std::max(size, 0));
    if (size <= 0 || end > std::min({feature.size(), left.size(), right.size(), threshold.size(),
                                     flags.size(), gain.size(), value.size()})) {
      throw corrupt(name + " holds fewer nodes than its trees need");
    }
    Tree tree;
    for (; at < end; ++at) {
      tree.nodes.push_back({.feature = feature[at],
                            .threshold = threshold[at],
                            .category = (flags[at] & kCategory) != 0,
                            .missing_left = (flags[at] & kMissingLeft) != 0,
                            .left = left[at],
                            .right = right[at],
                            .gain = gain[at],
                            .value = value[at]});
    }
    check(tree, ensemble.features.size(), name);
    ensemble.trees.push_back(std::move(tree));
  }
  if (ensemble.trees.size() % static_cast<size_t>(ensemble.outputs) != 0)
    throw corrupt(name + " holds part of a round of trees");
  return ensemble;
}

}  // namespace muster::inline v0_1::trees
