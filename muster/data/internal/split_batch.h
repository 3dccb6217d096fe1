// Batches in pieces, which auto_shard() distributes to workers that rebatch each in its own way.
// Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Every batch of n rows becomes `pieces` batches of n / pieces rows, rounded up, as long as there
// are rows; the last ones may have none. A batch that cannot be split is an error in the place of
// each piece.
class SplitBatchStream final : public Stream<StreamElement> {
 public:
  SplitBatchStream(std::unique_ptr<Stream<StreamElement>> input, int64_t pieces)
      : input_(std::move(input)), pieces_(pieces) {}

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override {
    return {{"kind", "split_batch"},
            {"version", 1},
            {"pieces", pieces_},
            {"input", input_->identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  // Reads the next batch when no pieces of one are left; false at the end.
  bool refill();

  const std::unique_ptr<Stream<StreamElement>> input_;
  const int64_t pieces_;
  StreamElement batch_;
  int64_t rows_ = 0;
  int64_t next_ = 0;      // the piece of it to hand on; 0: read another batch first
  IteratorState before_;  // of the place before batch_
  int64_t made_ = 0, run_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
