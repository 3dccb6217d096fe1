// scan(): a function of each element and of a state that is passed along. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/node.h"
#include "muster/data/internal/passing_stream.h"

namespace muster::inline v0_1::data::internal {

// The state is part of a saved position, so that nothing has to be read again.
class ScanStream final : public PassingStream {
 public:
  ScanStream(std::unique_ptr<Stream<StreamElement>> input, NodePtr node)
      : PassingStream(std::move(input)), node_(std::move(node)) {}

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override {
    return {{"kind", "scan"}, {"version", 1}, {"input", PassingStream::identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  const Scan& spec() const { return std::get<Scan>(node_->spec); }
  // Replaces the element by the function's result; an error leaves the state unchanged.
  void apply(StreamElement& item);

  const NodePtr node_;
  Element state_;
};

}  // namespace muster::inline v0_1::data::internal
