// The elements of a source whose indices come from the stream before. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/source_reader.h"

namespace muster::inline v0_1::data::internal {

// The elements of an addressable chain, one by one.
class ReadStream final : public Stream<StreamElement> {
 public:
  ReadStream(std::unique_ptr<Stream<SourceIndex>> indices, SourceReader reader)
      : indices_(std::move(indices)), reader_(std::move(reader)) {}

  void start(int64_t run) override { indices_->start(run); }
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    return indices_->skip(count, lost);
  }
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override { indices_->save(saved); }
  Position position(IteratorStateReader& saved) const override { return indices_->position(saved); }
  json identity() const override { return indices_->identity(); }
  void restore(IteratorStateReader& saved, int64_t run) override { indices_->restore(saved, run); }

 private:
  std::unique_ptr<Stream<SourceIndex>> indices_;
  SourceReader reader_;
};

}  // namespace muster::inline v0_1::data::internal
