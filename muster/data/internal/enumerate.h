// enumerate(): elements with their numbers. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/counting_stream.h"

namespace muster::inline v0_1::data::internal {

class EnumerateStream final : public CountingStream {
 public:
  EnumerateStream(std::unique_ptr<Stream<StreamElement>> input, int64_t start)
      : CountingStream(std::move(input)), start_(start) {}
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;

 private:
  const char* kind() const override { return "enumerate"; }
  const int64_t start_;
};

}  // namespace muster::inline v0_1::data::internal
