// Opening: a description becomes streams. Thread safety: pure functions.
#pragma once

#include <memory>

#include "muster/data/internal/node.h"
#include "muster/data/internal/run.h"
#include "muster/data/internal/source_index.h"
#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Streams that run the pipeline ending in a node; `run` must outlive them.
std::unique_ptr<Stream<SourceIndex>> open_indices(const Node& node,
                                                  const Run& run);  // REQUIRES: addressable
std::unique_ptr<Stream<StreamElement>> open_elements(const NodePtr& node, const Run& run);

}  // namespace muster::inline v0_1::data::internal
