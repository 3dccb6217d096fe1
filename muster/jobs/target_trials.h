// The trials of a search as jobs of a target. Thread safety: one thread at a time.
//
// Each trial has a record in the folder trials/<number> of the search's record, so that later
// processes find it: a search that continues, and `muster jobs`. The record contains the mark by
// which the target knows the trial before the trial is sent there, so that it is found even if no
// answer came.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/search_run.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

class TargetTrials : public TrialHost {
 public:
  // All must outlive this object.
  TargetTrials(Target& target, const JobRecord& search, Clock& clock);

  // A trial without an answer of the target counts as running: exit_code() looks for it. A trial
  // that begins anew gets another name than before, since targets keep the names of ended jobs.
  void start(int number, const JobSpec& job) override;
  // If a target cannot be asked, or does not know the job, for `kForgotten`, the trial is lost, and
  // has failed then. The same holds for a trial that was taken away, as by a preemption, and has
  // not begun again by then.
  std::optional<int> exit_code(int number) override;
  // For a failed trial, the last line of an error among the last lines of its log, or else the last
  // line of the log. Then the rest of the trial on the target is ended.
  std::string last_words(int number) override;
  std::string log_of(int number) const override;
  // A trial without an answer of the target, and which does not exist, counts as ended;
  // end_trials() looks for it again.
  void stop(int number) override;

  static constexpr Duration kForgotten = std::chrono::minutes(10);

 private:
  struct Entry {
    JobRecord record{};
    TimePoint last_seen{};
    bool given_up = false;  // it was to be stopped, and did not exist
    bool told = false;      // that its status is unknown now
    bool waits = false;     // the log says that it was taken away and may begin again
    bool left = false;      // it has failed, and tasks of it run on
  };
  void end_the_rest(Entry& trial);
  // Whether the target has answered for the trial, now at the latest.
  bool is_known(Entry& trial);
  Target& target_;
  const JobRecord& search_;
  Clock& clock_;
  JobStore store_;
  std::map<int, JobRecord> before_;  // by a search that this one continues
  std::map<int, Entry> trials_;
};

// The records of a search's trials, by their numbers.
std::map<int, JobRecord> trial_records(const JobRecord& search);
// As `muster jobs logs --task` takes it: "trial-3".
std::string trial_name(int number);

// The trials of a search that have not ended, by their numbers.
struct TrialsLeft {
  std::vector<int> running{};
  // The trials whose submission did not end, and which do not exist: for some minutes they may
  // still appear.
  std::vector<int> awaited{};
};
// As after the process that ran the search was killed. `target` is the search's target. A trial
// that the target does not know counts as ended. Throws the errors of Target::status().
TrialsLeft trials_left(const JobRecord& search, Target& target, Clock& clock);
// Asks the running trials to end: they save first. Returns how many there are. Throws Unavailable,
// naming it, if one may still start.
int cancel_trials(const JobRecord& search, Target& target, Clock& clock);
// The same, and waits until they have ended, at most `limit` for each, and for trials that may
// still start; or until `interrupted`. Throws Timeout, naming one, if it runs on.
void end_trials(
    const JobRecord& search, Target& target, Clock& clock, Duration limit,
    const std::function<bool()>& interrupted = [] { return false; });

}  // namespace muster::inline v0_1::jobs
