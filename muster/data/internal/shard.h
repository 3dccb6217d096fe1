// shard(): every n-th element. Thread safety: as Stream.
#pragma once

#include "muster/data/internal/stream_element.h"
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
      std::exception_ptr lost;  // among the elements of other shards
      const bool has =
          this->input().skip(index_, &lost) == index_ && this->input().read(out + got, 1) == 1;
      if (has) this->input().skip(num_shards_ - 1 - index_, &lost);
      if (!has && lost == nullptr) break;
      if (lost != nullptr) become_error(out[got], lost);
    }
    return got;
  }
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    int64_t got = 0;
    for (; got < count; ++got) {
      std::exception_ptr here;
      if (this->input().skip(num_shards_, &here) <= index_ && here == nullptr) break;
      note_lost(here, lost);
    }
    return got;
  }
  void save(IteratorState& saved) const override { this->input().save(saved); }
  json own_identity() const override {
    return {{"kind", "shard"}, {"version", 1}, {"num_shards", num_shards_}, {"index", index_}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override {
    this->input().restore(saved, run);
  }

 private:
  const int64_t num_shards_, index_;
};

}  // namespace muster::inline v0_1::data::internal
