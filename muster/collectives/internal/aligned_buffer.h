// Memory for messages. No LibTorch here. Thread safety: a value.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {

// Memory aligned to a cache line. Its initial content is unspecified, so that the system gives only
// pages that are used.
class AlignedBuffer {
 public:
  // Throws Unavailable when there is no memory.
  explicit AlignedBuffer(int64_t bytes)
      : data_(static_cast<std::byte*>(
            std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64)))) {
    if (!data_) throw Error(ErrorKind::kUnavailable, fmt::format("no memory for {} bytes", bytes));
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace muster::inline v0_1::internal
