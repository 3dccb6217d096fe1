// The batch whose rows a stage hands on. Its position is the place before it and the rows taken of
// it: the batch is read again. Thread safety: as Stream.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// The batch under way, and how its place is saved.
class OpenBatch {
 public:
  explicit OpenBatch(std::unique_ptr<Stream<StreamElement>> input) : input_(std::move(input)) {}

  void start(int64_t run);
  // Reads the next batch when no rows are left. False at the end of the input, and, with `error`
  // set, for a batch that cannot be read or has no rows axis.
  bool refill(std::exception_ptr* error);
  int64_t left() const { return rows_ - row_; }
  // The next rows, at most left().
  Element take(int64_t rows);
  void pass(int64_t rows) { row_ += rows; }
  void save(IteratorState& saved) const;
  Position position(IteratorStateReader& saved) const;
  json identity() const { return input_->identity(); }
  void restore(IteratorStateReader& saved, int64_t run);
  const std::shared_ptr<Element>& batch() const { return batch_; }
  const SourceIndex& tag() const { return tag_; }
  int64_t row() const { return row_; }

 private:
  std::unique_ptr<Stream<StreamElement>> input_;
  std::shared_ptr<Element> batch_;
  SourceIndex tag_;
  int64_t row_ = 0, rows_ = 0;
  IteratorState before_;  // of the place before batch_
};

}  // namespace muster::inline v0_1::data::internal
