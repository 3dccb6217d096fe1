// take(): the first elements. Thread safety: as Stream.
#pragma once

#include <algorithm>
#include <limits>

#include "muster/data/internal/transformation.h"

namespace muster::inline v0_1::data::internal {

template <typename T>
class TakeStream final : public Transformation<T> {
 public:
  TakeStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : Transformation<T>(std::move(input)),
        count_(count < 0 ? std::numeric_limits<int64_t>::max() : count) {}

  void start(int64_t run) override {
    taken_ = 0;
    this->input().start(run);
  }
  int64_t read(T* out, int64_t count) override {
    const int64_t wanted = std::max<int64_t>(0, std::min(count, count_ - taken_));
    const int64_t got = wanted == 0 ? 0 : this->input().read(out, wanted);
    taken_ += got;
    return got;
  }
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    const int64_t wanted = std::max<int64_t>(0, std::min(count, count_ - taken_));
    const int64_t got = wanted == 0 ? 0 : this->input().skip(wanted, lost);
    taken_ += got;
    return got;
  }
  void save(IteratorState& saved) const override {
    saved.push_back(taken_);
    this->input().save(saved);
  }
  Position position(IteratorStateReader& saved) const override {
    saved.next();
    return this->input().position(saved);
  }
  json own_identity() const override { return {{"kind", "take"}, {"version", 1}}; }
  void restore(IteratorStateReader& saved, int64_t run) override {
    taken_ = saved.count();
    this->input().restore(saved, run);
  }

 private:
  const int64_t count_;
  int64_t taken_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
