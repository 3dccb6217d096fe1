// What a stage keeps of the elements that passed: told to the user before the system ends the
// process for it. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace muster::inline v0_1::data::internal {

class HeldMemory {
 public:
  // `limit` in bytes; 0: three quarters of what the task may use, since a model needs some too.
  HeldMemory(std::string stage, std::string hint, uint64_t limit = 0);

  // Throws InvalidArgument when so many elements of that size would be more than the limit.
  void check(int64_t elements, uint64_t bytes_each) const;
  // One more element is kept; false when that is more than the limit.
  bool add(uint64_t bytes);
  // What is to be said then: InvalidArgument.
  std::exception_ptr error() const;
  void clear() { bytes_ = elements_ = 0; }

 private:
  const std::string stage_, hint_;
  uint64_t limit_;
  uint64_t bytes_ = 0, elements_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
