#include "muster/imports/internal/imported_graph.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

void collect_uses(const ImportedGraph& graph, std::set<size_t>& uses) {
  uses.insert(graph.outputs.begin(), graph.outputs.end());
  for (const ImportedNode& node : graph.nodes) collect_uses(node, uses);
}
}  // namespace

void collect_uses(const ImportedNode& node, std::set<size_t>& uses) {
  uses.insert(node.inputs.begin(), node.inputs.end());
  for (const auto& [name, attribute] : node.attributes) {
    if (attribute.graph) collect_uses(*attribute.graph, uses);
  }
}

void note_last_uses(ImportedGraph& graph) {
  std::set<size_t> made, later(graph.outputs.begin(), graph.outputs.end());
  for (const ImportedNode& node : graph.nodes)
    made.insert(node.outputs.begin(), node.outputs.end());
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    std::set<size_t> uses;
    collect_uses(*node, uses);
    uses.insert(node->outputs.begin(), node->outputs.end());
    for (const size_t slot : uses) {
      if (slot != kNoSlot && made.contains(slot) && later.insert(slot).second)
        node->last_uses.push_back(slot);
    }
  }
}

}  // namespace muster::inline v0_1::onnx::internal
