// assert_cardinality(): an error if there are fewer elements or more. Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>

#include "muster/data/internal/counting_stream.h"

namespace muster::inline v0_1::data::internal {

class AssertCardinalityStream final : public CountingStream {
 public:
  AssertCardinalityStream(std::unique_ptr<Stream<StreamElement>> input, int64_t expected)
      : CountingStream(std::move(input)), expected_(expected) {}
  void start(int64_t run) override {
    told_ = false;
    CountingStream::start(run);
  }
  void save(IteratorState& saved) const override {
    saved.push_back(told_);
    CountingStream::save(saved);
  }
  Position position(IteratorStateReader& saved) const override {
    saved.next();
    return CountingStream::position(saved);
  }
  void restore(IteratorStateReader& saved, int64_t run) override {
    told_ = saved.count() != 0;
    CountingStream::restore(saved, run);
  }
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;

 private:
  const char* kind() const override { return "assert_cardinality"; }
  // Passes up to `count` elements: `take(from, n)` takes n of the input; `fail(at, ended)` puts the
  // error in place of element `at`, or, if the input ended, after the last.
  template <typename Take, typename Fail>
  int64_t pass(int64_t count, Take take, Fail fail);
  std::exception_ptr wrong_count(bool ended) const;

  const int64_t expected_;
  bool told_ = false;
};

}  // namespace muster::inline v0_1::data::internal
