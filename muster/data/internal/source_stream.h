// The indices of a source, one after another. Thread safety: as Stream.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "muster/data/internal/identity.h"
#include "muster/data/internal/source_index.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

class SourceStream final : public Stream<SourceIndex> {
 public:
  // `names`: of the files it represents; empty if it represents none.
  SourceStream(std::string kind, int64_t size, std::string names = "")
      : kind_(std::move(kind)), size_(size), names_(std::move(names)) {}

  void start(int64_t run) override {
    run_ = run;
    next_ = 0;
  }
  int64_t read(SourceIndex* out, int64_t count) override {
    const int64_t got = std::min(count, size_ - next_);
    for (int64_t i = 0; i < got; ++i) out[i] = {next_ + i, run_};
    next_ += got;
    return got;
  }
  int64_t skip(int64_t count, std::exception_ptr* /*lost*/) override {
    const int64_t got = std::min(count, size_ - next_);
    next_ += got;
    return got;
  }
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override { saved.push_back(next_); }
  Position position(IteratorStateReader& saved) const override {
    const int64_t next = saved.next();
    return {0, next, next};
  }
  json identity() const override {
    json state = {{"kind", kind_}, {"version", 1}, {"size", size_}};
    if (!names_.empty()) state[kFileNames] = names_;
    return state;
  }
  void restore(IteratorStateReader& saved, int64_t run) override {
    run_ = run;
    next_ = std::min(saved.count(), size_);
  }

 private:
  const std::string kind_;
  const int64_t size_;
  const std::string names_;
  int64_t run_ = 0;
  int64_t next_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
