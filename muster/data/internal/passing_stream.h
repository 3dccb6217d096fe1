// A stream that passes on its input's elements. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Hands on the elements of its input one to one. It leaves no trace in saved positions.
class PassingStream : public Stream<StreamElement> {
 public:
  explicit PassingStream(std::unique_ptr<Stream<StreamElement>> input) : input_(std::move(input)) {}

  void start(int64_t run) override { input_->start(run); }
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    return input_->skip(count, lost);
  }
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void save(IteratorState& saved) const override { input_->save(saved); }
  Position position(IteratorStateReader& saved) const override { return input_->position(saved); }
  json identity() const override { return input_->identity(); }
  void restore(IteratorStateReader& saved, int64_t run) override { input_->restore(saved, run); }

 protected:
  Stream<StreamElement>& input() const { return *input_; }

 private:
  std::unique_ptr<Stream<StreamElement>> input_;
};

}  // namespace muster::inline v0_1::data::internal
