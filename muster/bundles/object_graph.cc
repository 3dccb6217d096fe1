#include "muster/bundles/object_graph.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::tensorflow {
namespace {

using formats::internal::Message;

// The key under which the graph itself lies, a text.
constexpr const char* kObjectGraphKey = "_CHECKPOINTABLE_OBJECT_GRAPH";
// The end of the keys of variables, after the path of objects.
constexpr std::string_view kValue = "/.ATTRIBUTES/VARIABLE_VALUE";

// TrackableObjectGraph, its nodes, and their attributes.
enum class GraphField : uint32_t { kNodes = 1 };
enum class NodeField : uint32_t { kAttributes = 2 };
enum class AttributeField : uint32_t { kFullName = 2, kKey = 3 };

std::map<std::string, std::string> names_of(const BundleReader& bundle) {
  const auto graph = bundle.entries().find(kObjectGraphKey);
  if (graph == bundle.entries().end() || graph->second.dtype != BundleDtype::kString) return {};
  const std::vector<std::string> texts = bundle.read_texts(graph->first, graph->second);
  if (texts.size() != 1) return {};
  try {
    return names_in_object_graph(bytes_of(texts.front()));
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("the object graph of '{}': {}", bundle.prefix(), error.message()),
                error.hint());
  }
}

}  // namespace

std::map<std::string, std::string> names_in_object_graph(Bytes bytes) {
  std::map<std::string, std::string> names;
  std::map<std::string, int> holders;  // how many variables have a name
  Message<GraphField> graph(bytes);
  for (Message<NodeField> node; graph.find(GraphField::kNodes, &node);) {
    for (Message<AttributeField> attribute; node.find(NodeField::kAttributes, &attribute);) {
      std::string name, key;
      while (attribute.next()) {
        attribute.read(AttributeField::kFullName, &name);
        attribute.read(AttributeField::kKey, &key);
      }
      if (name.empty() || !key.ends_with(kValue)) continue;
      if (names.emplace(key, name).second) ++holders[name];
    }
  }
  std::erase_if(names, [&](const auto& entry) { return holders.at(entry.second) > 1; });
  return names;
}

std::map<std::string, std::string> keys_by_name(const BundleReader& bundle) {
  const std::map<std::string, std::string> names = names_of(bundle);
  std::map<std::string, std::string> keys;
  for (const auto& [key, entry] : bundle.entries()) {
    if (key == kObjectGraphKey) continue;
    const auto known = names.find(key);
    std::string name = key;
    if (known != names.end()) {
      name = known->second;
    } else if (key.ends_with(kValue)) {
      name.resize(key.size() - kValue.size());
    }
    // A path may be the name of another variable.
    if (!keys.emplace(std::move(name), key).second) keys.emplace(key, key);
  }
  return keys;
}

}  // namespace muster::inline v0_1::tensorflow
