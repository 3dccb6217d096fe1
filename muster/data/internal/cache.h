// cache(): the elements of the first whole pass, kept in memory. A restored position reads them
// again: what is saved is counts.
#pragma once

#include "muster/data/internal/held_memory.h"
#include "muster/data/internal/items.h"

namespace muster::inline v0_1::data::internal {

class MemoryCacheStream final : public Stream<Item> {
 public:
  explicit MemoryCacheStream(std::unique_ptr<Stream<Item>> input) : input_(std::move(input)) {}

  void start(int64_t run) override;
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void mark(Marks& marks) const override { marks.insert(marks.end(), {handed_on_, filled_by_}); }
  Position position(MarkReader& marks) const override;
  json identity() const override {
    return {{"kind", "cache"}, {"version", 1}, {"input", input_->identity()}};
  }
  void restore(MarkReader& marks, int64_t run) override;

 private:
  // Reads until so many elements are kept, or all there are.
  void fill(int64_t wanted);
  // The element is that of this pass, whichever filled the cache: maps behind draw new numbers.
  Place place_now(const Place& kept) const;

  std::unique_ptr<Stream<Item>> input_;
  std::vector<Item> kept_;
  HeldMemory held_{"cache()", "keep the elements in a file: cache(path)"};
  bool complete_ = false;
  int64_t handed_on_ = 0;  // in this pass
  int64_t filled_by_ = 0;  // the pass whose elements are kept
  int64_t run_ = 0;        // this pass
  int64_t runs_ = 1;       // of the input in a pass, once it is complete
};

}  // namespace muster::inline v0_1::data::internal
