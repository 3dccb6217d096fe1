#include "muster/imports/internal/tensorflow_variables.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/bundles/object_graph.h"
#include "muster/imports/internal/tensorflow_attributes.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensorflow/bundle_tensor.h"

namespace muster::inline v0_1::imports {
namespace {

using tensorflow::SavedFunction;
using tensorflow::SavedModelFile;
using tensorflow::SavedNode;

constexpr const char* kPrefix = "variables/variables";

std::string_view node_name(std::string_view tensor) { return tensor.substr(0, tensor.find(':')); }

// The nodes of a graph or a function that restore variables.
class Restores {
 public:
  explicit Restores(const std::vector<SavedNode>& nodes) : nodes_(nodes) {
    for (const SavedNode& node : nodes) by_name_[node.name] = &node;
  }

  // What is assigned to each node or argument.
  std::map<std::string, RestoredTensor> assigned() const {
    std::map<std::string, RestoredTensor> all;
    for (const SavedNode& node : nodes_) {
      if (node.operation != "AssignVariableOp" && node.operation != "Assign") continue;
      const auto inputs = node.inputs();
      if (inputs.size() < 2) continue;
      if (const auto tensor = restored(inputs[1]))
        all.emplace(std::string(node_name(inputs[0])), *tensor);
    }
    return all;
  }

 private:
  const SavedNode* find(std::string_view tensor) const {
    const auto found = by_name_.find(node_name(tensor));
    return found == by_name_.end() ? nullptr : found->second;
  }

  // Nothing if another operation makes the value.
  std::optional<RestoredTensor> restored(std::string_view tensor) const {
    const SavedNode* node = find(tensor);
    for (int i = 0; node != nullptr && node->operation == "Identity" && i < 8; ++i) {
      const auto inputs = node->inputs();
      if (inputs.empty()) return std::nullopt;
      tensor = inputs[0];
      node = find(tensor);
    }
    if (node == nullptr || node->operation != "RestoreV2") return std::nullopt;
    const auto inputs = node->inputs();
    if (inputs.size() < 3) return std::nullopt;
    const size_t colon = tensor.rfind(':');
    const auto place =
        colon == std::string_view::npos ? 0 : parse_int(tensor.substr(colon + 1)).value_or(0);
    const std::vector<std::string>&keys = texts(inputs[1]), &parts = texts(inputs[2]);
    if (place < 0 || place >= static_cast<int64_t>(keys.size())) {
      throw corrupt(fmt::format("the node \"{}\" (RestoreV2) has no name for its result {}",
                                printable_beginning(node->name), place));
    }
    const auto at = static_cast<size_t>(place);
    return RestoredTensor{keys[at], at < parts.size() ? parts[at] : ""};
  }

  const std::vector<std::string>& texts(std::string_view tensor) const {
    const std::string name(node_name(tensor));
    const auto known = texts_.find(name);
    if (known != texts_.end()) return known->second;
    std::vector<std::string>& all = texts_[name];
    const SavedNode* node = find(tensor);
    if (node == nullptr || node->operation != "Const") return all;
    const auto attributes = node->attributes();
    const auto value = attributes.find("value");
    if (value != attributes.end()) all = read_tensorflow_attribute(value->second).texts;
    return all;
  }

  const std::vector<SavedNode>& nodes_;
  std::map<std::string_view, const SavedNode*> by_name_;
  mutable std::map<std::string, std::vector<std::string>> texts_;
};

// For each variable's node, what it is restored from: in the graph (version 1), or in the function
// that the saver's operation calls.
std::map<std::string, RestoredTensor> restored_tensors(const SavedModelFile& file) {
  std::map<std::string, RestoredTensor> all = Restores(file.nodes()).assigned();
  const std::string_view saver = node_name(file.restore_operation());
  for (const SavedNode& node : file.nodes()) {
    if (saver.empty() || node.name != saver) continue;
    const auto attributes = node.attributes();
    const auto called = attributes.find("f");
    if (called == attributes.end()) break;
    const auto function = file.functions().find(read_tensorflow_attribute(called->second).text);
    if (function == file.functions().end()) break;
    const auto inputs = node.inputs();
    const auto& arguments = function->second.arguments;
    const auto assigned = Restores(function->second.nodes).assigned();
    for (size_t i = 0; i < arguments.size() && i < inputs.size(); ++i) {
      const auto found = assigned.find(std::string(arguments[i]));
      if (found != assigned.end()) all.emplace(std::string(node_name(inputs[i])), found->second);
    }
  }
  return all;
}

// The part of a tensor that a text names: "10 4 0,5:-" has rows 0 to 4.
Tensor part_of(Tensor tensor, const RestoredTensor& restored, const std::string& node) {
  if (restored.part.empty()) return tensor;
  const auto refuse = [&] {
    return corrupt(fmt::format("the variable \"{}\" is the part \"{}\" of \"{}\", which is {}",
                               printable_beginning(node), printable_beginning(restored.part),
                               printable_beginning(restored.key), describe(tensor)));
  };
  const auto words = split(restored.part, ' ');
  const auto axes = split(words.back(), ':');
  if (static_cast<int64_t>(axes.size()) != tensor.dim()) throw refuse();
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis] == "-") continue;
    const auto numbers = split(axes[axis], ',');
    const auto begin = parse_int(numbers.front()), length = parse_int(numbers.back());
    const int64_t size = tensor.size(static_cast<int64_t>(axis));
    if (numbers.size() != 2 || !begin || !length || *begin < 0 || *begin > size || *length < 0 ||
        *length > size - *begin)
      throw refuse();
    tensor = tensor.narrow(static_cast<int64_t>(axis), *begin, *length);
  }
  return tensor.contiguous();
}

}  // namespace

TensorflowVariables::TensorflowVariables(FileSystem& files, const std::string& folder,
                                         const SavedModelFile& file)
    : folder_(folder), restored_(restored_tensors(file)) {
  const std::string prefix = join_path(folder, kPrefix);
  if (!files.exists(prefix + ".index").value()) return;
  bundle_.emplace(files, prefix);
  keys_ = tensorflow::keys_by_name(*bundle_);
}

Tensor TensorflowVariables::read(const std::string& node, const std::string& shared_name) {
  const auto known = values_.find(node);
  if (known != values_.end()) return known->second;
  if (!bundle_) {
    throw not_found(fmt::format("{} has no {}.index, which has the variable \"{}\"", folder_,
                                kPrefix, printable_beginning(node)),
                    "copy the folder with its subfolder variables");
  }
  const auto restored = restored_.find(node);
  const auto named = keys_.find(shared_name);
  const RestoredTensor from = restored != restored_.end() ? restored->second
                              : named != keys_.end()      ? RestoredTensor{named->second}
                                                          : RestoredTensor{shared_name};
  const auto entry = bundle_->entries().find(from.key);
  if (entry == bundle_->entries().end()) {
    throw corrupt(fmt::format("{}: {} has no tensor \"{}\" for the variable \"{}\"", folder_,
                              kPrefix, printable_beginning(from.key), printable_beginning(node)),
                  "copy the folder again, or export the model again");
  }
  if (!torch_dtype(entry->second.dtype)) {
    throw invalid_argument(fmt::format("not supported: SavedModel: the variable \"{}\" of {}",
                                       printable_beginning(node),
                                       tensorflow::describe(entry->second.dtype)));
  }
  const Tensor whole = tensorflow::read_bundle_tensor(*bundle_, from.key, entry->second);
  const Tensor value = part_of(whole, from, node);
  if (value.sizes() == whole.sizes()) whole_.insert(node);
  return values_[node] = value;
}

int64_t TensorflowVariables::global_step() const {
  if (!bundle_) return 0;
  const auto found = keys_.find("global_step");
  if (found == keys_.end()) return 0;
  const auto& entry = bundle_->entries().at(found->second);
  if (entry.dtype != BundleDtype::kInt64 || !entry.shape.empty()) return 0;
  return tensorflow::read_bundle_tensor(*bundle_, found->second, entry).item<int64_t>();
}

}  // namespace muster::inline v0_1::imports
