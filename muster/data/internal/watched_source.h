// For tests: a source that remembers which elements were read. Thread safety: any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "muster/data/source.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

// Numbers 0 … n-1 that remember which of them were read.
class WatchedSource final : public Source {
 public:
  explicit WatchedSource(int64_t size) : size_(size) {}
  std::string kind() const override { return "watched"; }
  int64_t size() const override { return size_; }
  Element element(int64_t index) const override {
    const std::lock_guard lock(mutex_);
    read_.push_back(index);
    return Element(torch::full({}, index, at::kLong));
  }
  std::vector<int64_t> read() const {
    const std::lock_guard lock(mutex_);
    return read_;
  }

 private:
  const int64_t size_;
  mutable std::mutex mutex_;
  mutable std::vector<int64_t> read_;
};

}  // namespace muster::inline v0_1
