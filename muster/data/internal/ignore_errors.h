// ignore_errors(): the elements that could be read. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/selecting_stream.h"

namespace muster::inline v0_1::data::internal {

class IgnoreErrorsStream final : public SelectingStream {
 public:
  IgnoreErrorsStream(std::unique_ptr<Stream<StreamElement>> input, bool log_warning, const Run& run)
      : SelectingStream(std::move(input), run), run_(run), log_warning_(log_warning) {}
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  // At a place where a position can be saved, no error is being counted: earlier ones must not
  // count either.
  void start(int64_t run) override {
    in_a_row_ = 0;
    SelectingStream::start(run);
  }
  void restore(IteratorStateReader& saved, int64_t run) override {
    in_a_row_ = 0;
    SelectingStream::restore(saved, run);
  }

 private:
  const char* kind() const override { return "ignore_errors"; }
  bool passes(StreamElement& item) override;
  // Says how many were left out where the pass is over: fewer came than were wanted.
  int64_t told(int64_t got, int64_t wanted);

  // After this many errors there is hardly any good element: the search for one ends with an error,
  // and continues when it is called again.
  static constexpr int64_t kMostInARow = 100000;

  const Run& run_;
  const bool log_warning_;
  int64_t in_a_row_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
