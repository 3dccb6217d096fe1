// Writes which examples a run has used: RunConfig::audit, by formats/audit_segment.h. Thread
// safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/file_system.h"
#include "muster/data/iterator.h"
#include "muster/formats/audit_segment.h"

namespace muster::inline v0_1::internal {

class ExampleAudit {
 public:
  // Of a start of the run that begins at this step and position. `pass` is that of the iterator;
  // `task` of `tasks` as in AuditSegment.
  struct Start {
    int64_t attempt = 1;
    int64_t step = 0;
    int64_t pass = 0;
    Position position{};
    int64_t task = 0, tasks = 1;
  };
  // `model_dir` has the folder "audit", which is made at the first save.
  ExampleAudit(FileSystem& fs, const std::string& model_dir, const Start& start);

  // The number of the next start of a run: one more than that of the last one which has left a file
  // in model_dir.
  static int64_t next_attempt(FileSystem& fs, const std::string& model_dir);

  // A step was made, or left out because it was not finite; the input is at `position` now. A step
  // that is not after the last one follows a roll back.
  void note(int64_t step, const Position& position, int64_t rows, bool left_out);
  // The run continues in another group of workers after `step`, where the input is at `position`.
  // This is the last step that was noted, or the one after it, which another worker has made.
  void continue_at(int64_t step, const Position& position);
  // The input has ended.
  void note_end();
  // Writes what was noted since the last file; before the checkpoint of this step. A file that
  // cannot be written is a warning: the next call writes its steps too.
  void flush();

 private:
  void begin(int64_t step);

  FileSystem& fs_;
  const std::string folder_;
  const int64_t pass_;
  formats::AuditSegment segment_;
  Position before_;
};

}  // namespace muster::inline v0_1::internal
