// The Iterator of a described pipeline.
#pragma once

#include "muster/data/internal/node.h"

namespace muster::inline v0_1::data::internal {

// `sharded_node`: the batch whose rows are divided between the replicas of options.sharding;
// null without one.
std::unique_ptr<Iterator> make_iterator(NodePtr node, const IteratorOptions& options,
                                        const Node* sharded_node);

}  // namespace muster::inline v0_1::data::internal
