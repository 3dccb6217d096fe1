// The memory of elements that a stage keeps. The user gets an error before the system ends the
// process for lack of memory. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace muster::inline v0_1::data::internal {

class HeldMemory {
 public:
  // `limit` in bytes; 0: three quarters of the task's memory, since a model needs some too.
  HeldMemory(std::string stage, std::string hint, uint64_t limit = 0);

  // Throws InvalidArgument when `elements` of that size would take more than the limit.
  void check(int64_t elements, uint64_t bytes_each) const;
  // One more element is kept; false when that is more than the limit.
  bool add(uint64_t bytes);
  // One element less is kept.
  void remove(uint64_t bytes) {
    bytes_ -= bytes;
    --elements_;
  }
  // The error for that: InvalidArgument.
  std::exception_ptr error() const;
  void clear() { bytes_ = elements_ = 0; }

 private:
  const std::string stage_, hint_;
  uint64_t limit_;
  uint64_t bytes_ = 0, elements_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
