#include "muster/savedmodel/saved_model_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::saved_model {
namespace {

using formats::internal::Message;

enum class ModelField : uint32_t { kMeta = 2 };
enum class MetaField : uint32_t { kInfo = 1, kGraph = 2, kSignature = 5 };
enum class InfoField : uint32_t { kTag = 4 };
enum class GraphField : uint32_t { kNode = 1, kLibrary = 2 };
enum class LibraryField : uint32_t { kFunction = 1 };
enum class FunctionField : uint32_t { kNode = 3 };
enum class NodeField : uint32_t { kName = 1, kOperation = 2, kInput = 3 };
enum class MapField : uint32_t { kKey = 1, kValue = 2 };
enum class SignatureField : uint32_t { kInput = 1, kOutput = 2, kMethod = 3 };
enum class TensorField : uint32_t { kDtype = 2, kShape = 3 };

// An entry of a map: its key, and its value as a message.
template <typename Field>
std::pair<std::string, Message<Field>> entry_of(Message<MapField> from) {
  std::pair<std::string, Message<Field>> entry;
  while (from.next()) {
    from.read(MapField::kKey, &entry.first);
    from.read(MapField::kValue, &entry.second);
  }
  return entry;
}

std::string form_of(Message<TensorField> from) {
  int dtype = 0;
  Message<formats::internal::ShapeField> shape;
  while (from.next()) {
    from.read(TensorField::kDtype, &dtype);
    from.read(TensorField::kShape, &shape);
  }
  return fmt::format("{}[{}]", describe(static_cast<tensorflow::BundleDtype>(dtype)),
                     fmt::join(formats::internal::decode_shape(shape), ", "));
}

DescribedSignature signature_of(Message<SignatureField> from) {
  DescribedSignature signature;
  Message<MapField> entry;
  while (from.next()) {
    from.read(SignatureField::kMethod, &signature.method);
    if (from.read(SignatureField::kInput, &entry)) {
      const auto [name, tensor] = entry_of<TensorField>(entry);
      signature.inputs[name] = form_of(tensor);
    } else if (from.read(SignatureField::kOutput, &entry)) {
      const auto [name, tensor] = entry_of<TensorField>(entry);
      signature.outputs[name] = form_of(tensor);
    }
  }
  return signature;
}

// Counts a node; returns its name and inputs.
std::pair<std::string, std::vector<std::string>> read_node(Message<NodeField> from,
                                                           SavedModelDescription& into) {
  std::string name, operation, input;
  std::vector<std::string> inputs;
  while (from.next()) {
    from.read(NodeField::kName, &name);
    from.read(NodeField::kOperation, &operation);
    if (from.read(NodeField::kInput, &input)) inputs.push_back(input);
  }
  ++into.operations[operation];
  return {name, inputs};
}

void read_graph(Message<GraphField> from, SavedModelDescription& into) {
  Message<NodeField> node;
  Message<LibraryField> library;
  while (from.next()) {
    if (from.read(GraphField::kNode, &node)) into.nodes.insert(read_node(node, into));
    if (!from.read(GraphField::kLibrary, &library)) continue;
    for (Message<FunctionField> function; library.find(LibraryField::kFunction, &function);) {
      while (function.find(FunctionField::kNode, &node)) read_node(node, into);
    }
  }
}

}  // namespace

SavedModelDescription describe_saved_model(Bytes bytes) {
  SavedModelDescription described;
  Message<ModelField> model(bytes);
  Message<MetaField> meta;
  if (!model.find(ModelField::kMeta, &meta)) throw corrupt("it has no graph");
  Message<InfoField> info;
  Message<GraphField> graph;
  Message<MapField> entry;
  while (meta.next()) {
    if (meta.read(MetaField::kInfo, &info)) {
      for (std::string tag; info.find(InfoField::kTag, &tag);) described.tags.push_back(tag);
    } else if (meta.read(MetaField::kGraph, &graph)) {
      read_graph(graph, described);
    } else if (meta.read(MetaField::kSignature, &entry)) {
      const auto [name, signature] = entry_of<SignatureField>(entry);
      described.signatures[name] = signature_of(signature);
    }
  }
  return described;
}

}  // namespace muster::inline v0_1::saved_model
