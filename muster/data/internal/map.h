// map(), one call at a time. Thread safety: MapStage is a value whose calls may run on any thread;
// the stream as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/node.h"
#include "muster/data/internal/passing_stream.h"
#include "muster/data/internal/run.h"

namespace muster::inline v0_1::data::internal {

// The function of one map() of the pipeline.
struct MapStage {
  NodePtr node;

  // Throws an Error naming the map, the pipeline and the element.
  Element operator()(const Element& element, const Place& from, const Run& run) const;
  // Maps `item.element`. An existing error stays; an error of the map replaces the element.
  void apply(StreamElement& item, const Run& run) const;
};

// How many calls of the map may run at once: as asked, or the cores of this task.
int calls_of(const Map& map);

// A map after a batch, or after a stage without an index.
class MapStream final : public PassingStream {
 public:
  MapStream(std::unique_ptr<Stream<StreamElement>> input, MapStage stage, const Run& run)
      : PassingStream(std::move(input)), stage_(std::move(stage)), run_(run) {}
  int64_t read(StreamElement* out, int64_t count) override;

 private:
  MapStage stage_;
  const Run& run_;
};

}  // namespace muster::inline v0_1::data::internal
