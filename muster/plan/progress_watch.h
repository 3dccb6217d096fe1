// Finds the member of a group that keeps the others waiting for too long. Processes and threads are
// judged by the same rules: a member that trains must take steps, one that saves has a limit of its
// own, and one that builds or evaluates a long limit; while any member does one of these, no member
// is blamed for taking no step. Pure: `now` is seconds on any clock that only moves forward. Thread
// safety: none, the owner locks.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/plan/phase.h"

namespace muster::inline v0_1::plan {

// For how many seconds a member may keep others waiting.
struct Patience {
  double progress = 300;   // while it trains without a new step
  double save = 1800;      // while it saves
  double busy = 6 * 3600;  // while it builds or evaluates
};

class ProgressWatch {
 public:
  // Members have the numbers from 0 on; all begin in `phase`.
  ProgressWatch(int members, const Patience& patience, Phase phase, double now);

  // The member has made progress: it is in this phase, at this step.
  void report(int member, Phase phase, int64_t step, double now);
  // While it is away, a member waits for others than this group, and counts as busy.
  void set_away(int member, bool away, double now);
  // The member will do no more: it is neither busy nor stuck.
  void remove(int member);
  // The owner itself did not run for the last `gap` seconds: they count against no member.
  void forgive(double gap, double now);

  // A member the others have waited for too long.
  struct Stuck {
    int member = 0;
    double seconds = 0;  // without progress, or in its phase
    Phase phase = Phase::kTraining;
    int64_t step = -1;  // the last one it reported

    // "no progress for", "saving a checkpoint took more than", "evaluating took more than"
    std::string complaint() const;
  };
  // `arrived` have waited for all others since `opened`. The owner asks again and again while they
  // wait: this is also how the watch learns until when a member was busy.
  std::optional<Stuck> find_stuck(const std::set<int>& arrived, double opened, double now);

 private:
  struct Member {
    Phase phase{};
    int64_t step = -1;
    double last_progress{};
    bool away = false;
    bool removed = false;
    bool busy() const;
  };
  // The member's wait is too long already.
  std::optional<Stuck> judge(int member, bool someone_is_busy, double opened, double now) const;

  Patience patience_;
  std::vector<Member> members_;
  double last_busy_;  // when a member was last known to build, save, evaluate or be away
};

}  // namespace muster::inline v0_1::plan
