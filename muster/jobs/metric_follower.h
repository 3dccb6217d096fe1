// Follows one metric of a running run, by the event files it writes, or by the file that the
// `hypertune` package of Google's services writes. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::jobs {

// The file in the run's folder that CLOUD_ML_HP_METRIC_FILE names to a trial. A line of it is
//   {"global_step": "100", "accuracy": "0.97", "timestamp": 1525851440.1, "trial": "3"}
// with numbers as texts, and the last hundred lines are kept.
constexpr const char* kReportFile = "output.metrics";

// The metric is a scalar by its tag ("accuracy"), in the folder of the run or one below it, or by
// folder and tag ("eval/accuracy"). Among several folders with such a tag, one of an evaluation
// (eval, validation) is meant, else the first by name. For a tag without a folder, values outside
// of an evaluation count only when the run has ended: an evaluation may still come. If no event
// file has the metric, kReportFile counts, by the exact name of the metric.
class MetricFollower {
 public:
  // `files` must outlive the follower; `directory` need not exist yet.
  MetricFollower(FileSystem& files, std::string directory, std::string metric);

  // Reads the new lines since the last call. Returns why files could not be read; a damaged or
  // incomplete line is left for the next call.
  Status read();
  // The values of the metric, by step; the last written one of each step. `ended`: the run has.
  const std::map<int64_t, double>& measurements(bool ended) const;
  // The names of all scalars so far, with their folders: "eval/accuracy", "loss"; and the names of
  // kReportFile.
  const std::set<std::string>& names() const { return names_; }

 private:
  Status read_folder(const std::string& folder, int depth);
  Status read_file(const std::string& folder, const std::string& path);
  Status read_report();

  FileSystem& files_;
  const std::string directory_;
  const std::string metric_;
  std::map<std::string, uint64_t> offsets_;  // where reading continues, by path
  std::set<std::string> names_;
  std::map<std::string, std::map<int64_t, double>> by_folder_;  // of the metric
  std::map<int64_t, double> reported_;                          // of the metric, in kReportFile
};

}  // namespace muster::inline v0_1::jobs
