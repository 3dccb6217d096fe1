// A clock between two stages. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/clocks.h"
#include "muster/data/internal/passing_stream.h"

namespace muster::inline v0_1::data::internal {

// Counts the time of the next stream.
class TimedStream final : public PassingStream {
 public:
  TimedStream(std::unique_ptr<Stream<StreamElement>> input, StageClock& clock)
      : PassingStream(std::move(input)), clock_(clock) {}
  int64_t read(StreamElement* out, int64_t count) override {
    Timed timed(clock_);
    const int64_t got = input().read(out, count);
    timed.count(got);
    return got;
  }
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    const Timed timed(clock_);
    return input().skip(count, lost);
  }

 private:
  StageClock& clock_;
};

}  // namespace muster::inline v0_1::data::internal
