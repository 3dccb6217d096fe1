#include "muster/bundles/saved_model_file.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::tensorflow {
namespace {

using formats::internal::count_fields;
using formats::internal::Message;
using formats::internal::ShapeField;

namespace saved {
enum class ModelField : uint32_t { kMeta = 2 };
enum class MetaField : uint32_t {
  kInfo = 1,
  kGraph = 2,
  kSaver = 3,
  kCollection = 4,
  kSignature = 5,
  kObjects = 7,
};
enum class InfoField : uint32_t { kTag = 4 };
enum class SaverField : uint32_t { kFile = 1, kRestore = 3 };
enum class GraphField : uint32_t { kNode = 1, kLibrary = 2 };
enum class LibraryField : uint32_t { kFunction = 1 };
enum class FunctionField : uint32_t { kSignature = 1, kNode = 3, kReturn = 4 };
enum class OperationField : uint32_t { kName = 1, kInput = 2, kOutput = 3 };
enum class ArgumentField : uint32_t { kName = 1 };
enum class NodeField : uint32_t { kName = 1, kOperation = 2, kInput = 3, kAttribute = 5 };
enum class MapField : uint32_t { kKey = 1, kValue = 2 };
enum class SignatureField : uint32_t { kInput = 1, kOutput = 2, kMethod = 3 };
enum class TensorField : uint32_t { kName = 1, kDtype = 2, kShape = 3 };
enum class RankField : uint32_t { kUnknown = 3 };
enum class CollectionField : uint32_t { kBytes = 2 };
enum class ListField : uint32_t { kValue = 1 };
enum class VariableField : uint32_t { kName = 1 };
enum class ObjectsField : uint32_t { kNode = 1 };
enum class ObjectField : uint32_t { kVariable = 7 };
enum class SavedVariableField : uint32_t { kTrainable = 3, kName = 6 };
}  // namespace saved

using saved::MapField;

std::string_view name_in(Bytes bytes) { return text_of(bytes); }

// The key and the value of an entry of a map.
std::pair<std::string_view, Bytes> entry_of(Message<MapField> from) {
  Bytes key, value;
  while (from.next()) {
    from.read(MapField::kKey, &key);
    from.read(MapField::kValue, &value);
  }
  return {name_in(key), value};
}

SavedNode node_of(Bytes message) {
  SavedNode node{.message = message};
  Bytes name, operation;
  for (Message<saved::NodeField> from(message); from.next();) {
    from.read(saved::NodeField::kName, &name);
    from.read(saved::NodeField::kOperation, &operation);
  }
  if (name.empty() || operation.empty()) throw corrupt("a node has no name or no operation");
  node.name = name_in(name);
  node.operation = name_in(operation);
  return node;
}

SavedFunction function_of(Message<saved::FunctionField> from) {
  SavedFunction function;
  function.nodes.reserve(count_fields(from, saved::FunctionField::kNode));
  Bytes message, name;
  Message<saved::OperationField> signature;
  Message<saved::ArgumentField> argument;
  Message<MapField> entry;
  while (from.next()) {
    if (from.read(saved::FunctionField::kNode, &message)) {
      function.nodes.push_back(node_of(message));
    } else if (from.read(saved::FunctionField::kReturn, &entry)) {
      const auto [result, value] = entry_of(entry);
      function.returns[result] = name_in(value);
    } else if (from.read(saved::FunctionField::kSignature, &signature)) {
      while (signature.next()) {
        if (signature.read(saved::OperationField::kName, &name)) function.name = name_in(name);
        const bool input = signature.read(saved::OperationField::kInput, &argument);
        if (!input && !signature.read(saved::OperationField::kOutput, &argument)) continue;
        if (!argument.find(saved::ArgumentField::kName, &name) || name.empty())
          throw corrupt("an argument of a function has no name");
        (input ? function.arguments : function.results).push_back(name_in(name));
      }
    }
  }
  if (function.name.empty()) throw corrupt("a function has no name");
  return function;
}

SavedTensorInfo info_of(Message<saved::TensorField> from) {
  SavedTensorInfo info;
  int dtype = 0;
  Bytes shape;
  while (from.next()) {
    from.read(saved::TensorField::kName, &info.tensor);
    from.read(saved::TensorField::kDtype, &dtype);
    if (!from.read(saved::TensorField::kShape, &shape)) continue;
    info.shape = formats::internal::decode_shape(Message<ShapeField>(shape));
    bool unknown = false;
    Message<saved::RankField>(shape).find(saved::RankField::kUnknown, &unknown);
    info.has_rank = !unknown;
  }
  info.dtype = static_cast<BundleDtype>(dtype);
  return info;
}

SavedSignature signature_of(Message<saved::SignatureField> from) {
  SavedSignature signature;
  Message<MapField> entry;
  while (from.next()) {
    from.read(saved::SignatureField::kMethod, &signature.method);
    const bool input = from.read(saved::SignatureField::kInput, &entry);
    if (!input && !from.read(saved::SignatureField::kOutput, &entry)) continue;
    const auto [name, info] = entry_of(entry);
    (input ? signature.inputs : signature.outputs)[std::string(name)] =
        info_of(Message<saved::TensorField>(info));
  }
  return signature;
}

// "dense/kernel" of "dense/kernel:0".
std::string without_output(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.find(':')));
}

// The names of the variables of a collection of graphs of version 1.
std::vector<std::string> names_of(Message<saved::CollectionField> from) {
  std::vector<std::string> names;
  for (Message<saved::ListField> list; from.find(saved::CollectionField::kBytes, &list);) {
    for (Message<saved::VariableField> variable; list.find(saved::ListField::kValue, &variable);) {
      Bytes name;
      if (variable.find(saved::VariableField::kName, &name))
        names.push_back(without_output(name_in(name)));
    }
  }
  return names;
}

// Whether each variable of an object graph trains. A name that several variables have is left out
// if they differ.
std::map<std::string, bool> trainable_in(Message<saved::ObjectsField> from) {
  std::map<std::string, bool> trainable;
  std::vector<std::string> unclear;
  for (Message<saved::ObjectField> object; from.find(saved::ObjectsField::kNode, &object);) {
    for (Message<saved::SavedVariableField> variable;
         object.find(saved::ObjectField::kVariable, &variable);) {
      bool trains = false;
      std::string name;
      while (variable.next()) {
        variable.read(saved::SavedVariableField::kTrainable, &trains);
        variable.read(saved::SavedVariableField::kName, &name);
      }
      if (!trainable.emplace(name, trains).second && trainable[name] != trains)
        unclear.push_back(name);
    }
  }
  for (const std::string& name : unclear) trainable.erase(name);
  return trainable;
}

}  // namespace

std::vector<std::string_view> SavedNode::inputs() const {
  std::vector<std::string_view> names;
  Message<saved::NodeField> from(message);
  for (Bytes name; from.find(saved::NodeField::kInput, &name);) names.push_back(name_in(name));
  return names;
}

std::map<std::string_view, Bytes> SavedNode::attributes() const {
  std::map<std::string_view, Bytes> all;
  Message<saved::NodeField> from(message);
  for (Message<MapField> entry; from.find(saved::NodeField::kAttribute, &entry);)
    all.insert(entry_of(entry));
  return all;
}

SavedModelFile::SavedModelFile(std::string bytes) : bytes_(std::move(bytes)) {
  Message<saved::ModelField> model(bytes_of(bytes_));
  Message<saved::MetaField> meta;
  if (!model.find(saved::ModelField::kMeta, &meta)) throw corrupt("it has no graph");
  Message<saved::InfoField> info;
  Message<saved::SaverField> saver;
  Message<MapField> entry;
  Message<saved::ObjectsField> objects;
  std::map<std::string, std::vector<std::string>> collections;
  for (Bytes graph; meta.next();) {
    if (meta.read(saved::MetaField::kInfo, &info)) {
      for (std::string tag; info.find(saved::InfoField::kTag, &tag);) tags_.push_back(tag);
    } else if (meta.read(saved::MetaField::kGraph, &graph)) {
      read(graph);
    } else if (meta.read(saved::MetaField::kSaver, &saver)) {
      while (saver.next()) {
        saver.read(saved::SaverField::kRestore, &restore_);
        saver.read(saved::SaverField::kFile, &restore_file_);
      }
    } else if (meta.read(saved::MetaField::kSignature, &entry)) {
      const auto [name, signature] = entry_of(entry);
      signatures_[std::string(name)] = signature_of(Message<saved::SignatureField>(signature));
    } else if (meta.read(saved::MetaField::kCollection, &entry)) {
      const auto [name, collection] = entry_of(entry);
      if (name == "variables" || name == "trainable_variables")
        collections[std::string(name)] = names_of(Message<saved::CollectionField>(collection));
    } else if (meta.read(saved::MetaField::kObjects, &objects)) {
      trainable_ = trainable_in(objects);
    }
  }
  if (!collections.contains("trainable_variables")) return;
  for (const std::string& name : collections["variables"]) trainable_.emplace(name, false);
  for (const std::string& name : collections["trainable_variables"]) trainable_[name] = true;
}

void SavedModelFile::read(Bytes graph) {
  Message<saved::GraphField> from(graph);
  nodes_.reserve(nodes_.size() + count_fields(from, saved::GraphField::kNode));
  Bytes message;
  Message<saved::LibraryField> library;
  while (from.next()) {
    if (from.read(saved::GraphField::kNode, &message)) nodes_.push_back(node_of(message));
    if (!from.read(saved::GraphField::kLibrary, &library)) continue;
    for (Message<saved::FunctionField> each; library.find(saved::LibraryField::kFunction, &each);) {
      SavedFunction function = function_of(each);
      const std::string_view name = function.name;
      if (!functions_.emplace(name, std::move(function)).second) {
        throw corrupt(fmt::format("two functions have the name \"{}\"", printable_beginning(name)));
      }
    }
  }
}

}  // namespace muster::inline v0_1::tensorflow
