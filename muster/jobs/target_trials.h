// The trials of a search as jobs of a target. Thread safety: one thread at a time.
//
// Each trial has a record in the folder trials/<number> of the search's record, so that whoever
// comes later finds it: a search that goes on, and `muster jobs`.
#pragma once

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
  TargetTrials(Target& target, const JobRecord& search, Clock& clock)
      : target_(target), search_(search), clock_(clock) {}

  void start(int number, const JobSpec& job) override;
  // A target that cannot be asked, or does not know the job, for `kForgotten` has lost the trial,
  // which has failed then.
  std::optional<int> exit_code(int number) override;
  // The last line of an error among the last of its log, or else the last line there is.
  std::string last_words(int number) override;
  std::string log_of(int number) const override;
  void stop(int number) override;

  static constexpr Duration kForgotten = std::chrono::minutes(10);

 private:
  struct Entry {
    JobRecord record;
    TimePoint last_seen;
  };
  Target& target_;
  const JobRecord& search_;
  Clock& clock_;
  std::map<int, Entry> trials_;
};

// The records of a search's trials, by their numbers.
std::map<int, JobRecord> trial_records(const JobRecord& search);
// As `muster jobs logs --task` takes it: "trial-3".
std::string trial_name(int number);

// The trials of a search that have not ended, as after the process that ran it was killed. `target`
// is that of the search. A trial that the target does not know counts as one that has ended. Throws
// what Target::status() throws.
std::vector<int> running_trials(const JobRecord& search, Target& target);
// Asks them to end: they save first. Returns how many there are.
int cancel_trials(const JobRecord& search, Target& target);
// The same, and waits until they have ended, at most `limit`. Throws Timeout, naming one, when it
// runs on.
void end_trials(const JobRecord& search, Target& target, Clock& clock, Duration limit);

}  // namespace muster::inline v0_1::jobs
