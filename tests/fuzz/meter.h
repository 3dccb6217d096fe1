// Holds a parser to the rule of muster/base/parse_limits.h. Thread safety: one thread.
#pragma once

#include <cstdint>

#include "muster/base/parse_limits.h"

namespace muster::fuzz {

// Measures what happens while it lives. Its destructor ends the process, as a crash does, if more
// than `most_bytes` of memory were allocated and not freed at one time (malloc and new are counted;
// with a sanitizer, which replaces both, they are not), and if it took more than 30 s of processor
// time, which no fuzz input may take.
class Meter {
 public:
  explicit Meter(uint64_t most_bytes);
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;
  ~Meter();

 private:
  uint64_t most_bytes_;
  double began_;  // seconds of processor time
};

// Returns the result of `read`, and measures it.
template <typename Read>
auto metered(uint64_t most_bytes, const Read& read) {
  const Meter meter(most_bytes);
  return read();
}

}  // namespace muster::fuzz
