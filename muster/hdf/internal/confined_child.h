// Runs code that reads a file in a process of its own, which can do nothing but compute: libhdf5
// writes outside of its memory, or never ends, on some damaged files, and such a file may be of
// anybody. The process has no file, no network and no program but this code; it asks for the bytes
// of the file, and answers with bytes. Thread safety: run_confined() from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::hdf::internal {

// What the confined code has of the world.
class ConfinedFile {
 public:
  ConfinedFile(int socket, uint64_t bytes) : socket_(socket), bytes_(bytes) {}

  uint64_t bytes() const { return bytes_; }
  // Fills `out`; false when the file does not have these bytes.
  bool read(uint64_t offset, MutableBytes out);
  // Adds to the answer.
  void answer(Bytes bytes);

 private:
  int socket_;
  uint64_t bytes_;
};

struct ConfinedLimits {
  uint64_t answer_bytes = 0;                  // a longer answer is Corrupt
  uint64_t memory_bytes = uint64_t{1} << 30;  // that the code takes
  int processor_seconds = 20;
};

// Calls `work` in a confined process and returns what it answered. An Error that `work` throws is
// thrown here. Throws Corrupt, naming the file, when the process crashes, takes more than the
// limits, or reads the file again and again; InvalidArgument where the system cannot confine a
// process; and what reading the file gives.
std::string run_confined(FileReader& file, const ConfinedLimits& limits,
                         const std::function<void(ConfinedFile&)>& work);

}  // namespace muster::inline v0_1::hdf::internal
