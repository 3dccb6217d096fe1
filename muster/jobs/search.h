// A search for the best hyper-parameters as a state machine: which trial is next, which one is
// stopped early, which one is best. It starts nothing and reads nothing. Thread safety: a value;
// one thread at a time.
//
// Trials are numbered from 1, or after the trials of a search that had the folder before and found
// nothing. The values of a trial are a function of the seed and its place among the trials, so an
// interrupted search continues with the same trials.
//
// Grid goes through all points in order. Random draws each trial for itself. Both stop a trial
// early only if the search asks for it (`early_stopping`): when its best measurement so far is
// worse than the median of the means that the finished trials had up to the same measurement, as
// Vizier's median rule does (Golovin et al., "Google Vizier", KDD 2017, 3.2). The default draws
// like random and stops by successive halving (asynchronous, of Li et al., "A System for Massively
// Parallel Hyperparameter Tuning", MLSys 2020, without pauses): with its 1st, 3rd, 9th, ...
// measurement a trial continues only if it is among the best third of the trials that have reached
// this measurement.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/jobs/job_spec.h"
#include "muster/jobs/search_space.h"

namespace muster::inline v0_1::jobs {

// Where a trial is.
enum class TrialState {
  kRunning,
  kDone,         // it ended well
  kStopped,      // it was stopped early, and its measurements count
  kFailed,       // it failed, or measured nothing
  kInterrupted,  // the search was stopped while it ran; it begins anew when the search continues
};
// "running", "done", "stopped early", "failed", "interrupted".
std::string_view to_string(TrialState state);

// One run of the job.
struct Trial {
  int number = 0;
  TrialValues values{};
  TrialState state = TrialState::kRunning;
  std::map<int64_t, double> measurements{};  // by step; numbers that are finite
  std::string failure{};                     // why it failed
  std::optional<int> exit_code{};            // of a failed one whose program was started
  std::string log{};                         // the command that shows its log; empty: not known
  bool operator==(const Trial&) const = default;

  // The best measurement; nothing when there is none.
  std::optional<double> best(bool maximize) const;
};

class Search {
 public:
  // `first` is the number of its first trial. Throws the errors of check_search(), and
  // InvalidArgument for less than one trial.
  Search(HyperParameterSearch what, uint64_t seed, int first = 1);

  // Begins the next trial and returns it; nothing if the allowed number runs, if all have begun, or
  // if too many have failed. A grid, or lists of values, may have fewer points than the requested
  // number of trials.
  std::optional<Trial> begin_next();
  // Sets all that a running trial has measured, by step. A value that is not finite is no
  // measurement.
  void measure(int trial, const std::map<int64_t, double>& measurements);
  // Whether a running trial shall be stopped because it will not become the best.
  bool should_stop(int trial) const;
  // Notes the command that shows a trial's log.
  void set_log(int trial, const std::string& log);
  // Ends a running trial. A trial that ended well without any measurement counts as failed.
  void finish(int trial, TrialState state, const std::string& failure = {},
              std::optional<int> exit_code = {});
  // The search is stopped: running trials are interrupted, and begin_next() begins them anew.
  void interrupt();

  const HyperParameterSearch& what() const { return what_; }
  uint64_t seed() const { return seed_; }
  const std::vector<Trial>& trials() const { return trials_; }
  // Throws InvalidArgument for a number that is none.
  const Trial& trial(int number) const;
  // The trials that have begun and not ended.
  int running() const;
  // How many trials there will be in all.
  int64_t planned() const;
  // The numbers of the first and of the last of them, and of the next one.
  int first() const { return first_; }
  int64_t last() const { return first_ + planned() - 1; }
  int next() const { return first_ + static_cast<int>(trials_.size()); }
  // Whether a trial has measured anything.
  bool has_measured() const;
  // Whether nothing runs and nothing will begin.
  bool done() const;
  // Why no trial begins any more though some are left; empty: no fault. A trial's exit code showed
  // that all would fail (refused()); more trials failed than allowed; or, if the search sets no
  // limit, the first three failed in the same way. As soon as a trial has measured something, the
  // program can be run, and only the number of failures counts.
  std::string gave_up() const;
  // The first trial that ended with exit code 2, which means a wrong argument or a missing file,
  // while none has measured anything; nullptr if there is none.
  const Trial* refused() const;
  // The best trial that ended well or was stopped; nullptr if there is none. Of equal ones it is
  // the first.
  const Trial* best() const;
  // Trials that measured something, the best first, then the others.
  std::vector<const Trial*> ranking() const;

  // The state from which an interrupted search continues: the trials that ended. Trials that ran
  // begin anew.
  nlohmann::json to_json() const;
  // Takes the result of to_json(), which was read from the file `path`; trials that ran then are
  // `unfinished` now. Throws InvalidArgument, naming the file or its folder, if it belongs to
  // another search.
  void restore(const nlohmann::json& saved, const std::string& path,
               TrialState unfinished = TrialState::kInterrupted);
  // After restore(): an interrupted trial continues. Does nothing to others.
  void runs_on(int trial);
  // The differences to the search whose to_json() is in the file `path`: "goal: MINIMIZE", "another
  // range of lr"; empty if it is this one. Throws InvalidArgument, naming the file, for other JSON.
  std::vector<std::string> differences(const nlohmann::json& saved, const std::string& path) const;
  // A search that gave up is tried once more: its failed trials begin anew.
  void try_again();

 private:
  Trial& running_trial(int number);
  std::optional<TrialValues> values_at(int place) const;
  bool behind_the_median(const Trial& trial) const;
  bool behind_its_rung(const Trial& trial) const;
  bool better(double a, double b) const { return what_.maximize ? a > b : a < b; }
  int count(TrialState state) const;
  int allowed_failures() const;
  const Trial* failed_alike() const;

  HyperParameterSearch what_;
  uint64_t seed_;
  int first_;
  std::vector<Trial> trials_;  // in order of their numbers
};

// The hint if a saved search cannot be read.
constexpr const char* kNewFolder = "begin the search in a new folder: another --job-dir";

// Facts from Search::to_json() of any search, read from the file `path`: where its trials end, and
// whether one has measured anything. Throws InvalidArgument, naming the file, for other JSON.
struct SavedTrials {
  int next = 1;
  bool have_measured = false;
};
SavedTrials saved_trials(const nlohmann::json& saved, const std::string& path);
// The hint for a search that differs from the one in the folder, which began with these
// differences.
std::string began_with(const std::vector<std::string>& differences);

}  // namespace muster::inline v0_1::jobs
