// Reads the elements of a source by index. Thread safety: as Stream.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "muster/data/internal/batch_memory.h"
#include "muster/data/internal/map.h"
#include "muster/data/internal/worker_pool.h"

namespace muster::inline v0_1::data::internal {

// Reads the elements that indices name, through the maps between the source and the first batch.
class SourceReader {
 public:
  SourceReader(NodePtr node, const Run& run);

  Element read(const SourceIndex& at) const;
  // The rows of `batch`. Each group of maps runs over all elements before the next group does.
  // Throws InvalidArgument if the rows do not fit into memory, judged by the first one after the
  // maps.
  Element gather(std::span<const SourceIndex> rows_at, const Node& batch);
  // Whether gather() of nothing gives zero rows: maps need an element to run on.
  bool knows_empty() const { return maps_.empty(); }
  // The bytes of one element; 0 without elements, and after maps, which may change its size.
  uint64_t element_bytes() const;

 private:
  // Neighbouring maps that run the same number of calls at once.
  struct Group {
    int calls;
    size_t begin, end;                 // of maps_
    std::unique_ptr<WorkerPool> pool;  // null for one call at a time
  };
  // The maps of the group applied to `element`.
  void apply(const Group& group, const SourceIndex& at, Element& element) const;

  const Run& run_;
  std::shared_ptr<const Source> source_;
  std::vector<MapStage> maps_;
  std::vector<Group> groups_;
  std::vector<int64_t> indices_;
  BatchMemory memory_;
};

}  // namespace muster::inline v0_1::data::internal
