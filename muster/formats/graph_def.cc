#include "muster/formats/graph_def.h"

#include <fmt/format.h>

#include <string_view>

#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::Builder;
using internal::count_fields;
using internal::decode_shape;
using internal::encode_shape;
using internal::Message;
using internal::ShapeField;

namespace wire {
enum class Graph : uint32_t {
  kNode = 1,      // Node, repeated
  kVersions = 4,  // Versions
};
enum class Versions : uint32_t { kProducer = 1 };  // int32
enum class Node : uint32_t {
  kName = 1,       // string
  kOp = 2,         // string
  kInput = 3,      // string, repeated
  kAttribute = 5,  // Entry, repeated
};
enum class Entry : uint32_t {
  kKey = 1,    // string
  kValue = 2,  // Attribute
};
enum class Attribute : uint32_t {
  kList = 1,    // List
  kNumber = 3,  // int64
};
enum class List : uint32_t { kShape = 7 };  // Shape, repeated
}  // namespace wire

constexpr std::string_view kShapes = "_output_shapes";
constexpr std::string_view kParameters = "parameters";
// The page asks for no version, but TensorFlow refuses a graph without one.
constexpr int kProducer = 22;

void add_attribute(Builder<wire::Node>& to, std::string_view key,
                   const Builder<wire::Attribute>& value) {
  Builder<wire::Entry> entry;
  entry.put_bytes(wire::Entry::kKey, key);
  entry.put_bytes(wire::Entry::kValue, value.bytes());
  to.put_bytes(wire::Node::kAttribute, entry.bytes());
}

std::string encode_node(const NodeDef& from) {
  Builder<wire::Node> to;
  to.put_bytes(wire::Node::kName, from.name);
  to.put_bytes(wire::Node::kOp, from.op);
  for (const std::string& input : from.inputs) to.put_bytes(wire::Node::kInput, input);
  if (!from.output_shapes.empty()) {
    Builder<wire::List> shapes;
    for (const auto& shape : from.output_shapes)
      shapes.put_bytes(wire::List::kShape, encode_shape(shape));
    Builder<wire::Attribute> value;
    value.put_bytes(wire::Attribute::kList, shapes.bytes());
    add_attribute(to, kShapes, value);
  }
  if (from.parameters != 0) {
    Builder<wire::Attribute> value;
    value.put_varint(wire::Attribute::kNumber, from.parameters);
    add_attribute(to, kParameters, value);
  }
  return to.take();
}

void decode_attribute(Message<wire::Entry> from, NodeDef* to) {
  std::string key;
  Message<wire::Attribute> value;
  while (from.next()) {
    from.read(wire::Entry::kKey, &key);
    from.read(wire::Entry::kValue, &value);
  }
  if (key == kShapes) {
    for (Message<wire::List> list; value.find(wire::Attribute::kList, &list);) {
      if (to->output_shapes.empty())
        to->output_shapes.reserve(count_fields(list, wire::List::kShape));
      for (Message<ShapeField> shape; list.find(wire::List::kShape, &shape);)
        to->output_shapes.push_back(decode_shape(shape));
    }
  } else if (key == kParameters) {
    while (value.find(wire::Attribute::kNumber, &to->parameters)) {
    }
  }
}

// Two bytes of a file can be a node without a name, which is not a box.
size_t named_nodes_in(Message<wire::Graph> from) {
  size_t count = 0;
  for (Message<wire::Node> node; from.find(wire::Graph::kNode, &node);)
    count += count_fields(node, wire::Node::kName) > 0 ? 1 : 0;
  return count;
}

NodeDef decode_node(Message<wire::Node> from) {
  NodeDef node;
  node.inputs.reserve(count_fields(from, wire::Node::kInput));
  Bytes input;
  Message<wire::Entry> attribute;
  while (from.next()) {
    from.read(wire::Node::kName, &node.name);
    from.read(wire::Node::kOp, &node.op);
    if (from.read(wire::Node::kInput, &input)) node.inputs.emplace_back(text_of(input));
    if (from.read(wire::Node::kAttribute, &attribute)) decode_attribute(attribute, &node);
  }
  return node;
}

}  // namespace

std::string encode_graph(const GraphDef& graph) {
  Builder<wire::Graph> to;
  for (const NodeDef& node : graph.nodes) to.put_bytes(wire::Graph::kNode, encode_node(node));
  Builder<wire::Versions> versions;
  versions.put_varint(wire::Versions::kProducer, kProducer);
  to.put_bytes(wire::Graph::kVersions, versions.bytes());
  return to.take();
}

Result<GraphDef> decode_graph(Bytes bytes) {
  try {
    GraphDef graph;
    Message<wire::Graph> from(bytes);
    graph.nodes.reserve(named_nodes_in(from));
    for (Message<wire::Node> node; from.find(wire::Graph::kNode, &node);) {
      if (count_fields(node, wire::Node::kName) > 0) graph.nodes.push_back(decode_node(node));
    }
    return graph;
  } catch (const Error& error) {
    return error.with_context(fmt::format("{} bytes are not a graph message", bytes.size()));
  }
}

}  // namespace muster::inline v0_1::formats
