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
  void save(IteratorState& saved) const override { rows_.save(saved); }
  Position position(IteratorStateReader& saved) const override { return rows_.position(saved); }
  json identity() const override {
    return {{"kind", "unbatch"}, {"version", 1}, {"input", rows_.identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override { rows_.restore(saved, run); }

 private:
  OpenBatch rows_;
};

}  // namespace muster::inline v0_1::data::internal
