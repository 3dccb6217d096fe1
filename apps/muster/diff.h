// Compares two runs by what they have left in their model_dirs: checkpoints, events and the record
// of used examples. Thread safety: pure functions of the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::app {

// A variable that differs between two checkpoints of one step.
struct VariableDiff {
  std::string name{};
  std::string what{};  // "288 of 288 elements differ, the first at 0, by at most 0.013"
};

// Where two runs part.
struct RunDiff {
  // The steps of which both have a checkpoint with the same content, and the first of which they
  // have not.
  std::vector<int64_t> same_checkpoints{};
  std::optional<int64_t> first_checkpoint{};
  std::vector<VariableDiff> variables{};  // that differ there; ordered by name
  std::optional<int64_t> other_step{};    // of the second, if single checkpoints are compared
  // The first step with checkpoints whose input states differ: "train/position/seed: 0 and 3". The
  // runs may still be the same.
  std::optional<int64_t> first_inputs{};
  std::vector<std::string> inputs{};
  // Of the first step at which an event differs: "loss: 0.25 and 0.26".
  int64_t compared_points = 0;  // of events
  std::optional<int64_t> first_event{};
  std::vector<std::string> events{};
  // Of the record of used examples; nothing when a run has none.
  std::optional<bool> same_examples{};
  std::optional<int64_t> first_examples{};  // the last step before the first difference, + 1
  std::string examples{};                   // the difference

  bool same() const { return !first_checkpoint && !first_event && !first_examples; }
};

// Compares the runs. A path is a model_dir, or a checkpoint by its prefix or its file; then only
// checkpoints are compared. Rates ("examples/sec") and texts are left out. Throws NotFound when a
// path does not exist or when both have nothing in common that could be compared, and Corrupt for
// damaged files.
RunDiff diff_runs(FileSystem& files, const std::string& a, const std::string& b);

// What is to be printed, as text or as one JSON document.
std::string show_diff(const RunDiff& diff, bool json);

}  // namespace muster::app
