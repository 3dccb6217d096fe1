// The journal of the evaluations of a model_dir: evaluations.jsonl, a JSON object a line. In a
// store, where nothing grows, each line is an object of its own in the folder evaluations, whose
// names sort by time: "<microseconds>-<8 random digits>". By it an
// evaluator that starts again knows what was evaluated, and the chief learns what the evaluator
// found. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/train/results.h"

namespace muster::inline v0_1::internal {

// One checkpoint file, distinguished from a later one of the same step.
struct CheckpointFile {
  std::string name{};     // "model.ckpt-120"
  std::string version{};  // its size and time; empty when its file could not be asked
  int64_t step = 0;
  double saved_at = 0;  // Unix time, by the clock of the file system
  auto operator<=>(const CheckpointFile&) const = default;
};
// Asks the file of a checkpoint. Returns NotFound when it is gone.
Result<CheckpointFile> ask_checkpoint_file(const std::string& prefix, FileSystem& fs);
// The same, for callers that do not need a version.
CheckpointFile checkpoint_file_of(const std::string& prefix, FileSystem& fs);

// One evaluation. It is written when its exporters are through; if they are called again because it
// was the final one, it is written once more, by the chief only if there are any exporters.
struct JournalEntry {
  std::string name{};  // of the EvalSpec
  std::string checkpoint{};
  std::string version{};
  EvalResult metrics{};
  std::map<std::string, std::string> exports{};  // the exports of it, by name of the exporter
  bool is_final = false;                         // whether the exporters were called so
  std::string task{};                            // the task that evaluated: "evaluator:0"
  std::string run{};                             // MUSTER_RUN_ID, if it was set
  bool operator==(const JournalEntry&) const = default;

  int64_t step() const;
  bool is_of(const CheckpointFile& file) const {
    return checkpoint == file.name && version == file.version;
  }
};

class EvaluationJournal {
 public:
  // Opens nothing yet. `fs` and `clock` outlive it.
  EvaluationJournal(const std::string& model_dir, FileSystem& fs, Clock& clock);

  // Throws the file system's errors.
  void append(const JournalEntry& entry);
  // The entries that any task has written since the last call. A damaged line is skipped with a
  // warning; an incomplete line comes with a later call.
  std::vector<JournalEntry> read_new();

 private:
  // The complete lines that were written since the last call: all, or those of one form.
  std::string read_lines();
  std::string lines_of_file();
  std::string lines_of_folder();

  std::string path_;
  std::string folder_;
  FileSystem& fs_;
  Clock& clock_;
  const bool remote_;           // in a store
  uint64_t read_ = 0;           // bytes of complete lines
  std::set<std::string> seen_;  // objects of the folder
  bool looked_ = false;
};

}  // namespace muster::inline v0_1::internal
