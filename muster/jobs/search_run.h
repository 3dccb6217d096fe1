// Runs a search: starts its trials where a host runs them, follows their metric, stops the trials
// with bad results, and keeps its state in the job's folder, so that it can be interrupted. Thread
// safety: one call at a time.
//
// In the job's folder: search.json (its state), search.svg (a picture), and a folder for each
// trial, by its number, which the trial gets as its --job-dir. In there TensorBoard's HParams page
// finds the values of the trial.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/jobs/job_spec.h"
#include "muster/jobs/search.h"

namespace muster::inline v0_1::jobs {

// Where trials run.
class TrialHost {
 public:
  virtual ~TrialHost() = default;
  // Starts a trial. Throws Error when it cannot.
  virtual void start(int number, const JobSpec& job) = 0;
  // Returns nothing while the trial runs, then its exit code.
  virtual std::optional<int> exit_code(int number) = 0;
  // The line with which a trial that failed says why, as far as its log shows; "" when it does not.
  virtual std::string last_words(int number) = 0;
  // A command that shows the log of a started trial, for people.
  virtual std::string log_of(int number) const = 0;
  // Asks the trial to end; exit_code() shows when it has.
  virtual void stop(int number) = 0;
};

// How a search is run.
struct SearchOptions {
  uint64_t seed = 1;
  Duration poll_time = std::chrono::seconds(1);    // between two looks at the trials
  Duration stop_time = std::chrono::seconds(120);  // for trials to end when the search is stopped
  std::function<bool()> interrupted = [] { return false; };
};

// The job of one trial: without the search, with the trial's values as flags after the arguments,
// its folder below the job's, and the environment variables that programs written for Google's
// service read: CLOUD_ML_TRIAL_ID, CLOUD_ML_HP_METRIC_TAG and CLOUD_ML_HP_METRIC_FILE, which is in
// the folder, or /dev/null if that is in a bucket. Values that the configuration sets stay.
JobSpec trial_job(const JobSpec& job, const Trial& trial);

// The name of the file in a search's folder that holds its state.
constexpr const char* kSearchFile = "search.json";

// The search of `job`, continued from its folder. If the folder holds another search, or one of
// another program or with other arguments, and no trial of that search has measured anything, the
// new search begins after it: its trials get the numbers that follow. Throws InvalidArgument if a
// trial has measured something, naming the differences, and if the job has no search or no folder.
Search known_search(const JobSpec& job, FileSystem& files, uint64_t seed);

// Runs the search of `job` to its end, or until it is interrupted, and returns it. A search that
// finds search.json continues; if it had given up, the failed trials begin anew, else they stay as
// they are. Throws the errors of known_search(); and Error if its files cannot be written, after it
// has stopped the trials.
Search run_search(const JobSpec& job, TrialHost& host, FileSystem& files, Clock& clock,
                  const SearchOptions& options = {});

}  // namespace muster::inline v0_1::jobs
