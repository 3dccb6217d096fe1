// unbatch(): the rows of batches, one by one. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/open_batch.h"

namespace muster::inline v0_1::data::internal {

class UnbatchStream final : public Stream<StreamElement> {
 public:
  explicit UnbatchStream(std::unique_ptr<Stream<StreamElement>> input) : rows_(std::move(input)) {}

  void start(int64_t run) override { rows_.start(run); }
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override { rows_.mark(marks); }
  Position position(MarkReader& marks) const override { return rows_.position(marks); }
  json identity() const override {
    return {{"kind", "unbatch"}, {"version", 1}, {"input", rows_.identity()}};
  }
  void restore(MarkReader& marks, int64_t run) override { rows_.restore(marks, run); }

 private:
  OpenBatch rows_;
};

}  // namespace muster::inline v0_1::data::internal
