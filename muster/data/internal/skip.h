// skip(): all but the first elements. Thread safety: as Stream.
#pragma once

#include "muster/data/internal/stream_element.h"
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
    std::exception_ptr here;
    if (count <= 0 || !begin(&here)) return 0;
    if (here == nullptr) return this->input().read(out, count);
    become_error(*out, here);  // in a place of its own, before the remaining elements
    return 1 + this->input().read(out + 1, count - 1);
  }
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    std::exception_ptr here;
    if (count <= 0 || !begin(&here)) return 0;
    if (here == nullptr) return this->input().skip(count, lost);
    note_lost(here, lost);
    return 1 + this->input().skip(count - 1, lost);
  }
  void save(IteratorState& saved) const override {
    saved.push_back(skipped_);
    this->input().save(saved);
  }
  Position position(IteratorStateReader& saved) const override {
    saved.next();
    return this->input().position(saved);
  }
  json own_identity() const override {
    return {{"kind", "skip"}, {"version", 1}, {"count", count_}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override {
    skipped_ = saved.count() != 0;
    this->input().restore(saved, run);
  }

 private:
  // False when nothing is left: -1 skips all.
  bool begin(std::exception_ptr* lost) {
    if (count_ < 0) return false;
    if (!skipped_) this->input().skip(count_, lost);
    skipped_ = true;
    return true;
  }

  const int64_t count_;
  bool skipped_ = false;
};

}  // namespace muster::inline v0_1::data::internal
