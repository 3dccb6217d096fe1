// A stream that reads one other, of indices or of values. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

// The common part of the transformations.
template <typename T>
class Transformation : public Stream<T> {
 public:
  explicit Transformation(std::unique_ptr<Stream<T>> input) : input_(std::move(input)) {}

  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  Position position(IteratorStateReader& saved) const override { return input_->position(saved); }
  json identity() const override {
    json state = own_identity();
    state["input"] = input_->identity();
    return state;
  }

 protected:
  virtual json own_identity() const = 0;
  Stream<T>& input() const { return *input_; }

 private:
  std::unique_ptr<Stream<T>> input_;
};

}  // namespace muster::inline v0_1::data::internal
