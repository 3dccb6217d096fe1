#include "muster/data/scaled_batches.h"

#include <utility>
#include <vector>

#include "muster/data/internal/node.h"

namespace muster::inline v0_1::data {
namespace {

using internal::NodePtr;

NodePtr scaled(const NodePtr& node, int64_t factor) {
  if (const auto* batch = node->as<internal::Batch>()) {
    if (batch->global) return node;
    internal::Batch larger = *batch;
    larger.size *= factor;
    return internal::make_node(std::move(larger), node->inputs);
  }
  if (node->is<internal::Rebatch, internal::Unbatch, internal::Interleave, internal::Window,
               internal::GroupByWindow, internal::SplitBatch>()) {
    return node;
  }
  std::vector<NodePtr> inputs;
  for (const NodePtr& input : node->inputs) inputs.push_back(scaled(input, factor));
  return inputs == node->inputs ? node : internal::make_node(node->spec, std::move(inputs));
}

}  // namespace

Dataset scaled_batches(const Dataset& dataset, int64_t factor) {
  if (factor == 1) return dataset;
  return internal::DatasetAccess::of(scaled(internal::DatasetAccess::node(dataset), factor));
}

}  // namespace muster::inline v0_1::data
