// shard(): every n-th element. Thread safety: as Stream.
#pragma once

#include "muster/data/internal/transformation.h"

namespace muster::inline v0_1::data::internal {

template <typename T>
class ShardStream final : public Transformation<T> {
 public:
  ShardStream(std::unique_ptr<Stream<T>> input, int64_t num_shards, int64_t index)
      : Transformation<T>(std::move(input)), num_shards_(num_shards), index_(index) {}

  void start(int64_t run) override { this->input().start(run); }
  int64_t read(T* out, int64_t count) override {
    int64_t got = 0;
    for (; got < count; ++got) {
      if (this->input().skip(index_) < index_ || this->input().read(out + got, 1) == 0) break;
      this->input().skip(num_shards_ - 1 - index_);
    }
    return got;
  }
  int64_t skip(int64_t count) override {
    int64_t got = 0;
    for (; got < count; ++got) {
      const int64_t passed = this->input().skip(num_shards_);
      if (passed <= index_) break;
    }
    return got;
  }
  void mark(Marks& marks) const override { this->input().mark(marks); }
  json own_identity() const override {
    return {{"kind", "shard"}, {"version", 1}, {"num_shards", num_shards_}, {"index", index_}};
  }
  void restore(MarkReader& marks, int64_t run) override { this->input().restore(marks, run); }

 private:
  const int64_t num_shards_, index_;
};

}  // namespace muster::inline v0_1::data::internal
