// The trials of a search as jobs of a target. Thread safety: one thread at a time.
//
// Each trial has a record in the folder trials/<number> of the search's record, so that later
// commands find it: a search that continues, and `muster jobs`. It says by which mark the target
// knows the trial before that is sent there, so that it is found also where no answer came.
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

  // A trial of which the target gave no answer counts as one that runs: exit_code() looks for it.
  // One that begins again has another name than before, since targets keep those that have ended.
  void start(int number, const JobSpec& job) override;
  // A target that cannot be asked, or does not know the job, for `kForgotten` has lost the trial,
  // which has failed then. So has one that was taken away, as by a preemption, and has not begun
  // again by then.
  std::optional<int> exit_code(int number) override;
  // For a trial that has failed: the last line of an error among the last of its log, or else the
  // last line there is. What is left of it on the target is ended then.
  std::string last_words(int number) override;
  std::string log_of(int number) const override;
  // A trial of which the target gave no answer, and which is not there, counts as one that has
  // ended; end_trials() looks for it again.
  void stop(int number) override;

  static constexpr Duration kForgotten = std::chrono::minutes(10);

 private:
  struct Entry {
    JobRecord record{};
    TimePoint last_seen{};
    bool given_up = false;  // it was to be stopped, and was not there
    bool told = false;      // that nothing can be heard of it now
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
  std::map<int, JobRecord> before_;  // by a search that this one continues with
  std::map<int, Entry> trials_;
};

// The records of a search's trials, by their numbers.
std::map<int, JobRecord> trial_records(const JobRecord& search);
// As `muster jobs logs --task` takes it: "trial-3".
std::string trial_name(int number);

// The trials of a search that have not ended, by their numbers.
struct TrialsLeft {
  std::vector<int> running{};
  // Those whose submission did not end, and which are not there: for some minutes they may come.
  std::vector<int> awaited{};
};
// As after the process that ran the search was killed. `target` is that of the search. A trial that
// the target does not know counts as one that has ended. Throws what Target::status() throws.
TrialsLeft trials_left(const JobRecord& search, Target& target, Clock& clock);
// Asks those that run to end: they save first. Returns how many there are. Throws Unavailable,
// naming it, when one may still come.
int cancel_trials(const JobRecord& search, Target& target, Clock& clock);
// The same, and waits until they have ended, at most `limit` for each, and for those that may still
// come; or until `interrupted`. Throws Timeout, naming one, when it runs on.
void end_trials(
    const JobRecord& search, Target& target, Clock& clock, Duration limit,
    const std::function<bool()>& interrupted = [] { return false; });

}  // namespace muster::inline v0_1::jobs
