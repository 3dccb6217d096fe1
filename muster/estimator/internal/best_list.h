// Implements the list of best_checkpoints.h, as a run continues. The file is authoritative: the
// chief keeps the checkpoints on it, and the task that evaluates, the chief or an evaluator, writes
// it. Thread safety: one thread, in each process.
#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/estimator/best_checkpoints.h"
#include "muster/train/results.h"

namespace muster::inline v0_1::internal {

class BestList {
 public:
  // Continues the list of model_dir, if it was made by the same policy; else begins anew, and the
  // log says so. Throws the errors of best_checkpoints(). `fs` outlives it.
  BestList(std::string model_dir, KeepBest policy, FileSystem& fs);

  // Notes that an evaluation of that name returned `result` for the checkpoint; the list is written
  // when it changes. Throws InvalidArgument, listing the existing metrics, if the deciding one is
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
  std::vector<BestCheckpoint> best_;
};

}  // namespace muster::inline v0_1::internal
