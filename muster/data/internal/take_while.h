// take_while(): elements up to the first for which a function is false. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/node.h"
#include "muster/data/internal/passing_stream.h"
#include "muster/data/internal/run.h"

namespace muster::inline v0_1::data::internal {

// Nothing is read after the element that ends it.
class TakeWhileStream final : public PassingStream {
 public:
  TakeWhileStream(std::unique_ptr<Stream<StreamElement>> input, NodePtr node)
      : PassingStream(std::move(input)), node_(std::move(node)) {}

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override {
    return {{"kind", "take_while"}, {"version", 1}, {"input", PassingStream::identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  // The next element; false at the end.
  bool next(StreamElement* out);

  const NodePtr node_;
  bool ended_ = false;  // by the function
};

}  // namespace muster::inline v0_1::data::internal
