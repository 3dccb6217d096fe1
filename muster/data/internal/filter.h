// filter(): the elements for which a function is true. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/node.h"
#include "muster/data/internal/selecting_stream.h"

namespace muster::inline v0_1::data::internal {

class FilterStream final : public SelectingStream {
 public:
  FilterStream(std::unique_ptr<Stream<StreamElement>> input, NodePtr node, const Run& run)
      : SelectingStream(std::move(input), run), node_(std::move(node)) {}

 private:
  const char* kind() const override { return "filter"; }
  // A predicate that throws leaves its error in the element.
  bool passes(StreamElement& item) override;

  const NodePtr node_;
};

}  // namespace muster::inline v0_1::data::internal
