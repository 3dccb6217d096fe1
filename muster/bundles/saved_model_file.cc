#include "muster/bundles/saved_model_file.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/bundles/saved_model_wire.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::tensorflow {
namespace {

using formats::internal::count_fields;
using formats::internal::Message;
using formats::internal::ShapeField;

using wire::MapField;

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
  for (Message<wire::NodeField> from(message); from.next();) {
    from.read(wire::NodeField::kName, &name);
    from.read(wire::NodeField::kOperation, &operation);
  }
  if (name.empty() || operation.empty()) throw corrupt("a node has no name or no operation");
  node.name = name_in(name);
  node.operation = name_in(operation);
  return node;
}

SavedFunction function_of(Message<wire::FunctionField> from) {
  SavedFunction function;
  function.nodes.reserve(count_fields(from, wire::FunctionField::kNode));
  Bytes message, name;
  Message<wire::OperationField> signature;
  Message<wire::ArgumentField> argument;
  Message<MapField> entry;
  while (from.next()) {
    if (from.read(wire::FunctionField::kNode, &message)) {
      function.nodes.push_back(node_of(message));
    } else if (from.read(wire::FunctionField::kReturn, &entry)) {
      const auto [result, value] = entry_of(entry);
      function.returns[result] = name_in(value);
    } else if (from.read(wire::FunctionField::kSignature, &signature)) {
      while (signature.next()) {
        if (signature.read(wire::OperationField::kName, &name)) function.name = name_in(name);
        const bool input = signature.read(wire::OperationField::kInput, &argument);
        if (!input && !signature.read(wire::OperationField::kOutput, &argument)) continue;
        if (!argument.find(wire::ArgumentField::kName, &name) || name.empty())
          throw corrupt("an argument of a function has no name");
        (input ? function.arguments : function.results).push_back(name_in(name));
      }
    }
  }
  if (function.name.empty()) throw corrupt("a function has no name");
  return function;
}

SavedTensorInfo info_of(Message<wire::TensorInfoField> from) {
  SavedTensorInfo info;
  int dtype = 0;
  Bytes shape;
  while (from.next()) {
    from.read(wire::TensorInfoField::kName, &info.tensor);
    from.read(wire::TensorInfoField::kDtype, &dtype);
    if (!from.read(wire::TensorInfoField::kShape, &shape)) continue;
    info.shape = formats::internal::decode_shape(Message<ShapeField>(shape));
    bool unknown = false;
    Message<wire::RankField>(shape).find(wire::RankField::kUnknown, &unknown);
    info.has_rank = !unknown;
  }
  info.dtype = static_cast<BundleDtype>(dtype);
  return info;
}

SavedSignature signature_of(Message<wire::SignatureField> from) {
  SavedSignature signature;
  Message<MapField> entry;
  while (from.next()) {
    from.read(wire::SignatureField::kMethod, &signature.method);
    const bool input = from.read(wire::SignatureField::kInput, &entry);
    if (!input && !from.read(wire::SignatureField::kOutput, &entry)) continue;
    const auto [name, info] = entry_of(entry);
    (input ? signature.inputs : signature.outputs)[std::string(name)] =
        info_of(Message<wire::TensorInfoField>(info));
  }
  return signature;
}

// "dense/kernel" of "dense/kernel:0".
std::string without_output(std::string_view tensor) {
  return std::string(tensor.substr(0, tensor.find(':')));
}

// The names of the variables of a collection of graphs of version 1.
std::vector<std::string> names_of(Message<wire::CollectionField> from) {
  std::vector<std::string> names;
  for (Message<wire::ValuesField> list; from.find(wire::CollectionField::kBytes, &list);) {
    for (Message<wire::VariableField> variable; list.find(wire::ValuesField::kValue, &variable);) {
      Bytes name;
      if (variable.find(wire::VariableField::kName, &name))
        names.push_back(without_output(name_in(name)));
    }
  }
  return names;
}

// Whether each variable of an object graph trains. A name that several variables have is left out
// if they differ.
std::map<std::string, bool> trainable_in(Message<wire::ObjectsField> from) {
  std::map<std::string, bool> trainable;
  std::vector<std::string> unclear;
  for (Message<wire::ObjectField> object; from.find(wire::ObjectsField::kNode, &object);) {
    for (Message<wire::SavedVariableField> variable;
         object.find(wire::ObjectField::kVariable, &variable);) {
      bool trains = false;
      std::string name;
      while (variable.next()) {
        variable.read(wire::SavedVariableField::kTrainable, &trains);
        variable.read(wire::SavedVariableField::kName, &name);
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
  Message<wire::NodeField> from(message);
  for (Bytes name; from.find(wire::NodeField::kInput, &name);) names.push_back(name_in(name));
  return names;
}

std::map<std::string_view, Bytes> SavedNode::attributes() const {
  std::map<std::string_view, Bytes> all;
  Message<wire::NodeField> from(message);
  for (Message<MapField> entry; from.find(wire::NodeField::kAttribute, &entry);)
    all.insert(entry_of(entry));
  return all;
}

SavedModelFile::SavedModelFile(std::string bytes) : bytes_(std::move(bytes)) {
  Message<wire::SavedModelField> model(bytes_of(bytes_));
  Message<wire::MetaField> meta;
  if (!model.find(wire::SavedModelField::kMetaGraph, &meta)) throw corrupt("it has no graph");
  Message<wire::InfoField> info;
  Message<wire::SaverField> saver;
  Message<MapField> entry;
  Message<wire::ObjectsField> objects;
  std::map<std::string, std::vector<std::string>> collections;
  for (Bytes graph; meta.next();) {
    if (meta.read(wire::MetaField::kInfo, &info)) {
      for (std::string tag; info.find(wire::InfoField::kTag, &tag);) tags_.push_back(tag);
    } else if (meta.read(wire::MetaField::kGraph, &graph)) {
      read(graph);
    } else if (meta.read(wire::MetaField::kSaver, &saver)) {
      while (saver.next()) {
        saver.read(wire::SaverField::kRestore, &restore_);
        saver.read(wire::SaverField::kFile, &restore_file_);
      }
    } else if (meta.read(wire::MetaField::kSignature, &entry)) {
      const auto [name, signature] = entry_of(entry);
      signatures_[std::string(name)] = signature_of(Message<wire::SignatureField>(signature));
    } else if (meta.read(wire::MetaField::kCollection, &entry)) {
      const auto [name, collection] = entry_of(entry);
      if (name == "variables" || name == "trainable_variables")
        collections[std::string(name)] = names_of(Message<wire::CollectionField>(collection));
    } else if (meta.read(wire::MetaField::kObjects, &objects)) {
      trainable_ = trainable_in(objects);
    }
  }
  if (!collections.contains("trainable_variables")) return;
  for (const std::string& name : collections["variables"]) trainable_.emplace(name, false);
  for (const std::string& name : collections["trainable_variables"]) trainable_[name] = true;
}

void SavedModelFile::read(Bytes graph) {
  Message<wire::GraphField> from(graph);
  nodes_.reserve(nodes_.size() + count_fields(from, wire::GraphField::kNode));
  Bytes message;
  Message<wire::LibraryField> library;
  while (from.next()) {
    if (from.read(wire::GraphField::kNode, &message)) nodes_.push_back(node_of(message));
    if (!from.read(wire::GraphField::kLibrary, &library)) continue;
    for (Message<wire::FunctionField> each; library.find(wire::LibraryField::kFunction, &each);) {
      SavedFunction function = function_of(each);
      const std::string_view name = function.name;
      if (!functions_.emplace(name, std::move(function)).second) {
        throw corrupt(fmt::format("two functions have the name \"{}\"", printable_beginning(name)));
      }
    }
  }
}

}  // namespace muster::inline v0_1::tensorflow
