// Follows one event file while it is written, and survives whatever is in it. A record that is
// damaged is noted and skipped; so is one of more than 64 MiB. Memory does not depend on the size
// of the file. Between two calls no file is open, so thousands of files can be followed.
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::board {

// The limits of a call.
struct EventTailOptions {
  uint64_t slice_bytes = 1 << 20;         // a call ends after about so many bytes
  uint64_t most_record_bytes = 64 << 20;  // a longer record is skipped
};

// Takes a record: the byte at which it begins, and its payload, valid during the call.
using TakeRecord = std::function<void(uint64_t offset, Bytes payload)>;

class EventTail {
 public:
  // Opens nothing. `files` must outlive the tail.
  EventTail(FileSystem& files, std::string path, EventTailOptions options = {});

  // Gives the next records to `take`, about a slice of them. `size` is the file's size in bytes, as
  // its folder lists it. Returns whether there is more to read now. A file that cannot be opened or
  // read is noted, and read by a later call.
  bool read(uint64_t size, const TakeRecord& take);

  // The bytes before this offset were read or skipped.
  uint64_t offset() const { return offset_; }
  const std::string& path() const { return path_; }
  // Whether the file ended inside a record when it was last read: it may still be written.
  bool ends_inside() const { return ends_inside_; }
  // Returns what was wrong since the last call, a sentence each.
  std::vector<std::string> take_notes();

 private:
  // Continues after damage at offset_, at the next place where a record can begin.
  void skip_damage(FileReader& file, uint64_t size);
  void note(std::string text);

  FileSystem& files_;
  const std::string path_;
  const EventTailOptions options_;
  uint64_t offset_ = 0;
  bool ends_inside_ = false;
  std::vector<std::string> notes_;
  std::string last_failure_;  // of opening and reading, which is noted once
};

}  // namespace muster::inline v0_1::board
