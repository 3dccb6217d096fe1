// Holds a parser to the rule of muster/base/parse_limits.h. Thread safety: one thread.
#pragma once

#include <cstdint>

#include "muster/base/parse_limits.h"

namespace muster::fuzz {

// Measures what happens while it lives. Its destructor ends the process, as a crash does, when more
// than `most_bytes` of memory were taken and not given back at one time (malloc and new are
// counted; with a sanitizer, which has both for itself, they are not), and when it took more than
// 30 s of processor time, which nothing of a fuzz target's size may.
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

// Gives what `read` gives, and measures it.
template <typename Read>
auto metered(uint64_t most_bytes, const Read& read) {
  const Meter meter(most_bytes);
  return read();
}

}  // namespace muster::fuzz
