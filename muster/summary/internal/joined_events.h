// Joins the event files of one writer in a store as they get old, so that a long run leaves few of
// them: every listing of their directory, as each save makes one, would go through all. Thread
// safety: one thread at a time.
//
// TensorBoard reads the files of a directory in the order of their names, and continues after the
// part that it has read of a file that became longer. So joined files take the name of the first
// one, whose bytes keep their place, and later events follow them. A new reader finds everything
// once and in order. A reader that has read the old files, which are minutes old, never looks at
// them again.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::summary::internal {

struct JoinOptions {
  double after_seconds = 600;           // since a file was sent: readers have seen it by then
  size_t files = 64;                    // that are joined at a time
  size_t most_bytes = size_t{4} << 20;  // of a joined file, before the next begins
};

class JoinedEvents {
 public:
  // `files` and `clock` outlive it.
  JoinedEvents(FileSystem& files, Clock& clock, JoinOptions options = {});

  // Notes a file that was sent. Names come in the order in which they sort.
  void add(const std::string& path);
  // Joins files if enough are old. A failure changes nothing that a reader sees, and is tried again
  // by the next call. `stop` is called between requests, and true ends the call.
  void join(const std::function<bool()>& stop);

 private:
  struct Part {
    std::string path{};
    TimePoint sent{};
  };

  struct Joining {
    std::string path{};
    std::string content{};
    std::vector<std::string> leaving{};  // files whose events are in `content`, except `path`
  };

  // Reads the files to be joined next; false if none is old enough or an error occurs.
  bool read_old(const std::function<bool()>& stop);
  // Removes the files whose events are in a joined file by now, also when the program ends: events
  // that exist twice are shown twice.
  void remove_joined();

  FileSystem& files_;
  Clock& clock_;
  const JoinOptions options_;
  std::deque<Part> parts_;   // not joined yet
  std::string joined_path_;  // of the file that grows; empty before the first
  std::string joined_;       // its content
  // Content that was read, but may not be written yet. It may exist already if the answer was lost:
  // so it is written again unchanged, and the first file, which may hold the others by now, is
  // never read again.
  std::optional<Joining> joining_;
  std::vector<std::string> leaving_;  // that are joined, and are to be removed
};

}  // namespace muster::inline v0_1::summary::internal
