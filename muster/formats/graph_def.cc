#include "muster/formats/graph_def.h"

#include <fmt/format.h>

#include <string_view>

#include "muster/formats/internal/protobuf.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::Builder;
using internal::count_fields;
using internal::decode_shape;
using internal::encode_shape;
using internal::Message;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

namespace wire {
enum class Graph : protozero::pbf_tag_type {
  kNode = 1,      // Node, repeated
  kVersions = 4,  // Versions
};
enum class Versions : protozero::pbf_tag_type { kProducer = 1 };  // int32
enum class Node : protozero::pbf_tag_type {
  kName = 1,       // string
  kOp = 2,         // string
  kInput = 3,      // string, repeated
  kAttribute = 5,  // Entry, repeated
};
enum class Entry : protozero::pbf_tag_type {
  kKey = 1,    // string
  kValue = 2,  // Attribute
};
enum class Attribute : protozero::pbf_tag_type {
  kList = 1,    // List
  kNumber = 3,  // int64
};
enum class List : protozero::pbf_tag_type { kShape = 7 };  // Shape, repeated
}  // namespace wire

constexpr std::string_view kShapes = "_output_shapes";
constexpr std::string_view kParameters = "parameters";
// The page asks for no version, but TensorFlow refuses a graph without one.
constexpr int kProducer = 22;

void add_attribute(Builder<wire::Node>& to, std::string_view key, const std::string& value) {
  Builder<wire::Entry> entry(to, wire::Node::kAttribute);
  entry.add_string(wire::Entry::kKey, key.data(), key.size());
  entry.add_message(wire::Entry::kValue, value);
}

std::string encode_node(const NodeDef& from) {
  std::string bytes;
  Builder<wire::Node> to(bytes);
  to.add_string(wire::Node::kName, from.name);
  to.add_string(wire::Node::kOp, from.op);
  for (const std::string& input : from.inputs) to.add_string(wire::Node::kInput, input);
  if (!from.output_shapes.empty()) {
    std::string list;
    Builder<wire::List> shapes(list);
    for (const auto& shape : from.output_shapes)
      shapes.add_message(wire::List::kShape, encode_shape(shape));
    std::string value;
    Builder<wire::Attribute>(value).add_message(wire::Attribute::kList, list);
    add_attribute(to, kShapes, value);
  }
  if (from.parameters != 0) {
    std::string value;
    Builder<wire::Attribute>(value).add_int64(wire::Attribute::kNumber, from.parameters);
    add_attribute(to, kParameters, value);
  }
  return bytes;
}

void decode_attribute(Message<wire::Entry> from, NodeDef* to) {
  std::string key;
  Message<wire::Attribute> value;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Entry::kKey, pbf_wire_type::length_delimited):
        key = from.get_string();
        break;
      case tag_and_type(wire::Entry::kValue, pbf_wire_type::length_delimited):
        value = from.get_message();
        break;
      default:
        from.skip();
    }
  }
  if (key == kShapes) {
    while (value.next(wire::Attribute::kList, pbf_wire_type::length_delimited)) {
      Message<wire::List> list(value.get_message());
      if (to->output_shapes.empty())
        to->output_shapes.reserve(count_fields(list, wire::List::kShape));
      while (list.next(wire::List::kShape, pbf_wire_type::length_delimited))
        to->output_shapes.push_back(decode_shape(list.get_message()));
    }
  } else if (key == kParameters) {
    while (value.next(wire::Attribute::kNumber, pbf_wire_type::varint))
      to->parameters = value.get_int64();
  }
}

// Two bytes of a file can be a node without a name, which is no box.
size_t named_nodes_in(Message<wire::Graph> from) {
  size_t count = 0;
  while (from.next(wire::Graph::kNode, pbf_wire_type::length_delimited))
    count += count_fields(Message<wire::Node>(from.get_message()), wire::Node::kName) > 0 ? 1 : 0;
  return count;
}

NodeDef decode_node(Message<wire::Node> from) {
  NodeDef node;
  node.inputs.reserve(count_fields(from, wire::Node::kInput));
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Node::kName, pbf_wire_type::length_delimited):
        node.name = from.get_string();
        break;
      case tag_and_type(wire::Node::kOp, pbf_wire_type::length_delimited):
        node.op = from.get_string();
        break;
      case tag_and_type(wire::Node::kInput, pbf_wire_type::length_delimited):
        node.inputs.push_back(from.get_string());
        break;
      case tag_and_type(wire::Node::kAttribute, pbf_wire_type::length_delimited):
        decode_attribute(from.get_message(), &node);
        break;
      default:
        from.skip();
    }
  }
  return node;
}

}  // namespace

std::string encode_graph(const GraphDef& graph) {
  std::string bytes;
  Builder<wire::Graph> to(bytes);
  for (const NodeDef& node : graph.nodes) to.add_message(wire::Graph::kNode, encode_node(node));
  Builder<wire::Versions> versions(to, wire::Graph::kVersions);
  versions.add_int32(wire::Versions::kProducer, kProducer);
  return bytes;
}

Result<GraphDef> decode_graph(Bytes bytes) {
  try {
    GraphDef graph;
    Message<wire::Graph> from(internal::view_of(bytes));
    graph.nodes.reserve(named_nodes_in(from));
    while (from.next(wire::Graph::kNode, pbf_wire_type::length_delimited)) {
      const Message<wire::Node> node(from.get_message());
      if (count_fields(node, wire::Node::kName) > 0) graph.nodes.push_back(decode_node(node));
    }
    return graph;
  } catch (const protozero::exception& error) {
    return corrupt(fmt::format("{} bytes are no graph message: {}", bytes.size(), error.what()));
  }
}

}  // namespace muster::inline v0_1::formats
