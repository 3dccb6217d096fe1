// The results of a model's evaluations so far, from the events that they wrote and from the notices
// of a run. Thread safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

class EvaluationHistory {
 public:
  // `eval_dir` is Estimator::eval_dir(); it need not exist yet. `fs` outlives the history.
  EvaluationHistory(FileSystem& fs, std::string eval_dir);

  const std::string& eval_dir() const { return eval_dir_; }
  // Reads the event files; returns whether anything changed since the last call. The later values
  // of a step count; a file that ends inside a record, or is damaged, counts up to there.
  bool read();
  // Adds an evaluation that was just made; read() forgets it, for by then the events have it.
  void add(int64_t global_step, const std::map<std::string, double>& results);
  // The values of `metric` by step, for steps in [first_step, last_step], with the precision of
  // events (float32). Throws InvalidArgument listing the existing names if there are evaluations
  // and none of them has it.
  std::map<int64_t, double> values(const std::string& metric, int64_t first_step,
                                   int64_t last_step) const;

 private:
  std::map<std::string, uint64_t> sizes_there() const;

  FileSystem& fs_;
  const std::string eval_dir_;
  std::map<std::string, uint64_t> sizes_;                    // of the files that were read, by path
  std::map<std::string, std::map<int64_t, double>> values_;  // by metric and step
};

}  // namespace muster::inline v0_1
