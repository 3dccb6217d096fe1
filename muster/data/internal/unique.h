// unique(): every element once. Thread safety: as Stream.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "muster/data/internal/held_memory.h"
#include "muster/data/internal/run.h"
#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Elements seen in the pass are kept. A saved position is a count: the elements up to it are read
// again.
class UniqueStream final : public Stream<StreamElement> {
 public:
  UniqueStream(std::unique_ptr<Stream<StreamElement>> input, const Run& run)
      : input_(std::move(input)), shared_(run) {}

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void save(IteratorState& saved) const override { saved.insert(saved.end(), {taken_, run_}); }
  Position position(IteratorStateReader& saved) const override;
  json identity() const override {
    return {{"kind", "unique"}, {"version", 1}, {"input", input_->identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  // Whether it was not seen before; an error always passes.
  bool passes(StreamElement& item);
  // The next element that was not seen before; false at the end.
  bool next(StreamElement* out);

  std::unique_ptr<Stream<StreamElement>> input_;
  const Run& shared_;
  std::unordered_set<std::string> seen_;
  HeldMemory held_{"unique()",
                   "take fewer elements in front of it, or a part of them that tells "
                   "them apart"};
  bool full_ = false;  // the seen elements take too much memory
  int64_t taken_ = 0;  // from the input, in this pass
  int64_t run_ = 0;    // this pass
};

}  // namespace muster::inline v0_1::data::internal
