// The list behind best_checkpoints.h, as a run continues. The file is what counts: the chief keeps
// the checkpoints on it, and the evaluating task, the chief or an evaluator, writes it. Thread
// safety: all calls from any thread: the thread that writes a checkpoint asks which ones stay.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/estimator/best_checkpoints.h"
#include "muster/train/results.h"

namespace muster::inline v0_1::internal {

class BestList {
 public:
  // Goes on with the list of model_dir, where it was made by the same policy; else begins again,
  // and the log says so. Throws what best_checkpoints() throws. `fs` outlives it.
  BestList(std::string model_dir, KeepBest policy, FileSystem& fs);

  // An evaluation of that name gave `result` for the checkpoint; the list is written when it
  // changes. Throws InvalidArgument, listing the metrics there are, when the one that counts is
  // not among them.
  void note(const std::string& evaluation, const std::string& prefix, const EvalResult& result);
  // Whether a checkpoint is one of the best so far. Reads the file.
  bool holds(const std::string& prefix);

 private:
  void read();
  void take(std::vector<BestCheckpoint> best);
  void write() const;

  std::string model_dir_;
  KeepBest policy_;
  FileSystem& fs_;
  std::mutex mutex_;
  std::vector<BestCheckpoint> best_;
};

}  // namespace muster::inline v0_1::internal
