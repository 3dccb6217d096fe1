// skip(): all but the first elements. Thread safety: as Stream.
#pragma once

#include "muster/data/internal/transformation.h"

namespace muster::inline v0_1::data::internal {

template <typename T>
class SkipStream final : public Transformation<T> {
 public:
  SkipStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : Transformation<T>(std::move(input)), count_(count) {}

  void start(int64_t run) override {
    skipped_ = false;
    this->input().start(run);
  }
  int64_t read(T* out, int64_t count) override {
    return begin() ? this->input().read(out, count) : 0;
  }
  int64_t skip(int64_t count) override { return begin() ? this->input().skip(count) : 0; }
  void mark(Marks& marks) const override {
    marks.push_back(skipped_);
    this->input().mark(marks);
  }
  Position position(MarkReader& marks) const override {
    marks.next();
    return this->input().position(marks);
  }
  json own_identity() const override {
    return {{"kind", "skip"}, {"version", 1}, {"count", count_}};
  }
  void restore(MarkReader& marks, int64_t run) override {
    skipped_ = marks.count() != 0;
    this->input().restore(marks, run);
  }

 private:
  // False when nothing is left: -1 skips all.
  bool begin() {
    if (count_ < 0) return false;
    if (!skipped_) this->input().skip(count_);
    skipped_ = true;
    return true;
  }

  const int64_t count_;
  bool skipped_ = false;
};

}  // namespace muster::inline v0_1::data::internal
