// cache(): the elements of the first whole pass, kept in memory. A restored position reads them
// again: only counts are saved.
#pragma once

#include "muster/data/internal/held_memory.h"
#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

class MemoryCacheStream final : public Stream<StreamElement> {
 public:
  // `pass_numbers`: that the tags of one pass of the input carry.
  MemoryCacheStream(std::unique_ptr<Stream<StreamElement>> input, int64_t pass_numbers)
      : input_(std::move(input)), pass_numbers_(pass_numbers) {}

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void save(IteratorState& saved) const override {
    saved.insert(saved.end(), {handed_on_, filled_by_});
  }
  Position position(IteratorStateReader& saved) const override;
  json identity() const override {
    return {{"kind", "cache"}, {"version", 1}, {"input", input_->identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  // Reads until `wanted` elements are kept, or the input ends.
  void fill(int64_t wanted);
  std::unique_ptr<Stream<StreamElement>> input_;
  const int64_t pass_numbers_;
  std::vector<StreamElement> kept_;
  HeldMemory held_{"cache()", "keep the elements in a file: cache(path)"};
  bool complete_ = false;
  int64_t handed_on_ = 0;  // in this pass
  int64_t filled_by_ = 0;  // the pass whose elements are kept
  int64_t run_ = 0;        // this pass
};

}  // namespace muster::inline v0_1::data::internal
