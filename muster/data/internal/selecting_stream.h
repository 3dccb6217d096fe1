// A stream that passes on some elements. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/passing_stream.h"
#include "muster/data/internal/run.h"

namespace muster::inline v0_1::data::internal {

// Hands on some of its input's elements.
class SelectingStream : public PassingStream {
 public:
  SelectingStream(std::unique_ptr<Stream<StreamElement>> input, const Run& run)
      : PassingStream(std::move(input)), run_(run) {}
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  json identity() const override {
    return {{"kind", kind()}, {"version", 1}, {"input", PassingStream::identity()}};
  }

 protected:
  virtual const char* kind() const = 0;
  // Whether to pass the element on. It may put an error into it, which is passed on.
  virtual bool passes(StreamElement& item) = 0;

 private:
  const Run& run_;
};

}  // namespace muster::inline v0_1::data::internal
