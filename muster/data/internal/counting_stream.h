// A stream whose saved position contains the count of its elements. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Counts its elements, and keeps the count in its saved position.
class CountingStream : public Stream<StreamElement> {
 public:
  explicit CountingStream(std::unique_ptr<Stream<StreamElement>> input)
      : input_(std::move(input)) {}

  void start(int64_t run) override {
    count_ = 0;
    input_->start(run);
  }
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void save(IteratorState& saved) const override {
    saved.push_back(count_);
    input_->save(saved);
  }
  Position position(IteratorStateReader& saved) const override {
    saved.next();
    return input_->position(saved);
  }
  json identity() const override {
    return {{"kind", kind()}, {"version", 1}, {"input", input_->identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override {
    count_ = saved.count();
    input_->restore(saved, run);
  }

 protected:
  virtual const char* kind() const = 0;
  Stream<StreamElement>& input() const { return *input_; }
  int64_t count_ = 0;

 private:
  std::unique_ptr<Stream<StreamElement>> input_;
};

}  // namespace muster::inline v0_1::data::internal
