// The trials of a search as jobs of a target. Thread safety: one thread at a time.
#pragma once

#include <map>
#include <optional>

#include "muster/base/clock.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/search_run.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// Each trial has a record in the folder trials/<number> of the search's record.
class TargetTrials : public TrialHost {
 public:
  // All must outlive this object.
  TargetTrials(Target& target, const JobRecord& search, Clock& clock)
      : target_(target), search_(search), clock_(clock) {}

  void start(int number, const JobSpec& job) override;
  // A target that cannot be asked, or does not know the job, for `kForgotten` has lost the trial,
  // which has failed then.
  std::optional<int> exit_code(int number) override;
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

}  // namespace muster::inline v0_1::jobs
