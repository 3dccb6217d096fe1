#include "muster/imports/internal/tensorflow_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::imports {

using tensorflow::SavedNode;

namespace {

// Operations whose results have several names. In functions a result is "node:name:number".
const std::map<std::string_view, std::vector<std::string_view>>& result_names() {
  static const std::vector<std::string_view> kNormalized = {
      "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"};
  static const std::map<std::string_view, std::vector<std::string_view>> names = {
      {"FusedBatchNorm", kNormalized},
      {"FusedBatchNormV2", kNormalized},
      {"FusedBatchNormV3", kNormalized},
      {"SparseFillEmptyRows",
       {"output_indices", "output_values", "empty_row_indicator", "reverse_index_map"}},
      {"SparseReshape", {"output_indices", "output_shape"}},
      {"TensorListPopBack", {"output_handle", "tensor"}},
      {"TopKV2", {"values", "indices"}},
      {"Unique", {"y", "idx"}}};
  return names;
}

bool is_control_flow_of_version_1(std::string_view operation) {
  static const std::set<std::string_view> kNames = {"Enter",    "Exit",          "LoopCond",
                                                    "Merge",    "NextIteration", "RefEnter",
                                                    "RefMerge", "RefSwitch",     "Switch"};
  return kNames.contains(operation);
}

}  // namespace

Error broken_saved_model(const std::string& path, const std::string& what) {
  return corrupt(fmt::format("{} is not a valid SavedModel: {}", path, what),
                 "export the model again");
}

std::string label_of(const SavedNode& node) {
  return fmt::format("\"{}\" ({})", printable_beginning(node.name),
                     printable_beginning(node.operation));
}

Scope::Scope(const std::vector<SavedNode>& all, const std::string& of, bool function)
    : nodes(all), path(of), is_function(function) {
  for (size_t i = 0; i < all.size(); ++i) by_name.emplace(all[i].name, i);
}

Reference Scope::reference(std::string_view tensor) const {
  const auto parts = split(std::string(tensor), ':');
  const std::string_view node = tensor.substr(0, tensor.find(':'));
  if (parts.size() == 1) return {node, 0};
  const bool named = is_function && !parse_int(parts[1]);
  size_t place = 0;
  if (named) {
    const auto at = by_name.find(node);
    if (at != by_name.end()) {
      const auto names = result_names().find(nodes[at->second].operation);
      if (names != result_names().end()) {
        const auto found = std::ranges::find(names->second, parts[1]);
        if (found == names->second.end())
          throw broken(fmt::format("no result is called \"{}\"", printable_beginning(tensor)));
        place = static_cast<size_t>(found - names->second.begin());
      }
    }
  }
  const auto number = !named              ? parse_int(parts[1])
                      : parts.size() == 3 ? parse_int(parts[2])
                                          : std::optional<int64_t>(0);
  if (parts.size() > 3 || !number || *number < 0 || *number >= static_cast<int64_t>(kMostOutputs))
    throw broken(fmt::format("\"{}\" names no result", printable_beginning(tensor)));
  return {node, place + static_cast<size_t>(*number)};
}

std::vector<Reference> Scope::inputs_of(const SavedNode& node) const {
  std::vector<Reference> all;
  for (const std::string_view input : node.inputs()) {
    if (!input.starts_with("^")) all.push_back(reference(input));
  }
  return all;
}

std::vector<size_t> Scope::order_of(const std::vector<Reference>& wanted) {
  enum class State { kOpen, kDone };
  std::map<size_t, State> states;
  std::vector<size_t> order;
  struct Step {
    size_t node;
    std::vector<Reference> inputs;
    size_t next;
  };
  std::vector<Step> stack;
  const auto visit = [&](const Reference& value) {
    if (given.contains(value)) return;
    const auto found = by_name.find(value.node);
    if (found == by_name.end())
      throw broken(fmt::format("there is no node \"{}\"", printable_beginning(value.node)));
    const size_t node = found->second;
    size_t& used = results[node];
    used = std::max(used, value.output + 1);
    const auto [state, first] = states.emplace(node, State::kOpen);
    if (first) {
      const SavedNode& saved = nodes[node];
      if (is_control_flow_of_version_1(saved.operation)) {
        throw invalid_argument(
            fmt::format("not supported: SavedModel: the node {} of {}, a loop or a branch of "
                        "version 1",
                        label_of(saved), path),
            "export it with tf.compat.v1.enable_control_flow_v2()");
      }
      stack.push_back({node, inputs_of(saved), 0});
    } else if (state->second == State::kOpen) {
      throw broken(
          fmt::format("the node {} takes what is made of its own result", label_of(nodes[node])));
    }
  };
  for (const Reference& result : wanted) {
    visit(result);
    while (!stack.empty()) {
      Step& step = stack.back();
      if (step.next < step.inputs.size()) {
        const Reference next = step.inputs[step.next++];
        visit(next);
        continue;
      }
      states[step.node] = State::kDone;
      order.push_back(step.node);
      stack.pop_back();
    }
  }
  return order;
}

size_t Scope::slot_of(const Reference& value) const {
  const auto known = given.find(value);
  if (known != given.end()) return known->second;
  const auto node = by_name.find(value.node);
  const auto slots = node == by_name.end() ? values.end() : values.find(node->second);
  if (slots == values.end() || value.output >= slots->second.size()) {
    throw broken(
        fmt::format("no node makes \"{}:{}\"", printable_beginning(value.node), value.output));
  }
  return slots->second[value.output];
}

}  // namespace muster::inline v0_1::imports
