// Random histories of tasks whose processes die, stand still, lose connections, come twice and come
// again, while their messages are late and their host stands still now and then. The guarantees for
// a member are checked against a record of the true events, for the rules of each host.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "muster/plan/membership.h"

namespace muster::inline v0_1::plan {
namespace {

using Admission = Membership::Admission;

constexpr double kTimeout = 6, kLook = 0.25, kEnd = 100;

// A process of a task: its true state, whatever its host believes.
struct Process {
  Caller who{};
  bool lives = true;
  int64_t admissions = 0;  // the last time it came in; 0: never
  int64_t lost = 0;        // the same number, when that has ended
  bool ended = false;      // it was done, or said goodbye, and its host was notified
  double asked = -1;       // to come in, first
  double still_until = 0;
  double heard = 0;  // when a message of it arrived
};
using ProcessPtr = std::shared_ptr<Process>;

class History {
 public:
  History(uint64_t seed, MembershipRules rules)
      : random_(seed), rules_(rules), members_(rules, 0) {}

  void run() {
    const int tasks = 1 + draw(4);
    for (int task = 0; task < tasks; ++task) start(fmt::format("worker:{}", task));
    for (int faults = draw(12); faults > 0; --faults) after(uniform(0, kEnd), [this] { strike(); });
    look();
    while (!events_.empty() && now_ < kEnd) {
      const auto first = events_.extract(events_.begin());
      now_ = std::max(now_, first.key().first);
      first.mapped()();
    }
  }

  int losses = 0, restarts = 0, refusals = 0, standstills = 0;

 private:
  // --- chance and time ---
  int draw(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  double uniform(double from, double to) { return from + (to - from) * draw(1000) / 1000; }
  double delay() { return draw(15) == 0 ? uniform(0, 4) : uniform(0, 0.1); }
  void after(double seconds, std::function<void()> event) {
    events_.emplace(std::pair(now_ + seconds, next_++), std::move(event));
  }
  // The actions of a process while it lives and does not stand still.
  void act(const ProcessPtr& process, const std::function<void()>& what) {
    if (!process->lives) return;
    const double still = process->still_until - now_;
    still > 0 ? after(still, [=, this] { act(process, what); }) : what();
  }
  // A message on its way to the host, which receives nothing while it stands still.
  void send(const std::function<void()>& word) {
    after(delay(), [=, this] { at_host(word); });
  }
  void at_host(const std::function<void()>& word) {
    const double still = host_still_until_ - now_;
    still > 0 ? after(still, [=, this] { at_host(word); }) : word();
  }

  // --- processes ---
  ProcessPtr start(const std::string& task) {
    auto process = std::make_shared<Process>();
    process->who = {task, ++incarnations_};
    processes_.push_back(process);
    ask_to_join(process);
    return process;
  }

  void ask_to_join(const ProcessPtr& process) {
    send([=, this] {
      const Admission answer = join(process);
      after(delay(), [=, this] {
        act(process, [=, this] {
          if (answer == Admission::kRefused) process->lives = false;
          if (answer == Admission::kTooEarly) ask_to_join(process);
          if (answer == Admission::kAdmitted || answer == Admission::kRestarted) take_part(process);
        });
      });
    });
  }

  Admission join(const ProcessPtr& process) {
    const Membership::Member* there = members_.find(process->who.task);
    const ProcessPtr before = there != nullptr && there->here() ? of(there->incarnation) : nullptr;
    const bool connected = there != nullptr && there->connections > 0;
    if (process->asked < 0) process->asked = now_;
    const Admission answer = members_.join(process->who, now_);
    EXPECT_EQ(answer == Admission::kKnown, before == process) << where(*process);
    const bool in = members_.is_here(process->who);
    EXPECT_EQ(in, answer != Admission::kTooEarly && answer != Admission::kRefused);
    if (in) process->heard = now_;
    if (answer == Admission::kKnown) return answer;
    if (before != nullptr && rules_.twins_wait) {
      // No process takes the place of a live one, and one does take the place of a dead one.
      if (answer == Admission::kRefused) {
        EXPECT_GT(awake_since(process->asked), kTimeout) << where(*process);
      }
      const bool holds_on = connected || !rules_.reconnect_timeout;
      EXPECT_TRUE(!in || !holds_on || silence(*before) > kTimeout) << where(*process);
      EXPECT_TRUE(in || holds_on) << where(*process);
    } else {
      EXPECT_TRUE(in) << where(*process);
    }
    EXPECT_FALSE(in && before != nullptr && members_.is_here(before->who)) << where(*process);
    restarts += answer == Admission::kRestarted;
    refusals += answer == Admission::kRefused;
    if (in) process->admissions = ++admissions_;
    return answer;
  }

  void take_part(const ProcessPtr& process) {
    if (rules_.reconnect_timeout) send([=, this] { members_.connected(process->who); });
    beat(process);
    if (draw(4) == 0)
      after(uniform(0, 60), [=, this] { act(process, [=, this] { end(process); }); });
  }

  void beat(const ProcessPtr& process) {
    act(process, [=, this] {
      send([=, this] {
        const bool here = members_.is_here(process->who);
        EXPECT_EQ(members_.heartbeat(process->who, now_), here);
        process->heard = now_;
        if (!here && !process->ended) after(delay(), [=, this] { come_again(process); });
      });
      after(1, [=, this] { beat(process); });
    });
  }

  // It learns that it was taken for lost: its task comes again, as a new process.
  void come_again(const ProcessPtr& process) {
    act(process, [=, this] {
      process->lives = false;
      after(uniform(0.5, 3), [=, this] { start(process->who.task); });
    });
  }

  void end(const ProcessPtr& process) {
    const bool done = draw(2) == 0;
    send([=, this] {
      const bool here = members_.is_here(process->who);
      if (done) {
        members_.done(process->who);
      } else {
        EXPECT_EQ(members_.goodbye(process->who).has_value(), here) << where(*process);
        EXPECT_FALSE(members_.is_here(process->who)) << where(*process);
      }
      if (here) process->ended = true;
    });
    if (!done || draw(2) == 0) process->lives = false;
  }

  // --- the host ---
  void look() {
    at_host([this] {
      if (now_ - last_look_ > kTimeout / 2) {
        woke_ = now_;
        ++standstills;
      }
      last_look_ = now_;
      for (const Failure& lost : members_.find_lost(now_)) note_loss(lost, /*seen=*/false);
      for (const auto& [task, member] : members_.all()) {
        // A silent member is found.
        const double silent = now_ - std::max(of(member.incarnation)->heard, woke_);
        EXPECT_TRUE(!member.here() || silent <= kTimeout) << task;
      }
      after(kLook, [this] { look(); });
    });
  }

  // `seen`: the host has seen its process end.
  void note_loss(const Failure& lost, bool seen) {
    ++losses;
    const Membership::Member* member = members_.find(lost.task);
    EXPECT_EQ(member->state, Membership::State::kLost);
    Process& process = *of(member->incarnation);
    EXPECT_NE(process.admissions, 0) << where(process);
    EXPECT_FALSE(process.ended) << where(process) << ": it was done, or had said goodbye";
    EXPECT_NE(std::exchange(process.lost, process.admissions), process.admissions)
        << where(process) << ": it was lost twice";
    const bool cut = rules_.reconnect_timeout && member->connections == 0;
    EXPECT_TRUE(seen || cut || silence(process) > kTimeout) << where(process);
  }

  // How long it was silent, and how long the host has run since a time: without forgiven times.
  double silence(const Process& process) const { return awake_since(process.heard); }
  double awake_since(double time) const {
    double seconds = now_ - time;
    for (const auto& [from, to] : host_stills_)
      seconds -= std::max(0.0, std::min(now_, to) - std::max(time, from));
    return seconds + 1e-6;
  }

  ProcessPtr of(uint64_t incarnation) const { return processes_[incarnation - 1]; }
  std::string where(const Process& process) const {
    return fmt::format("{} of incarnation {}, at {:.3f} s", process.who.task,
                       process.who.incarnation, now_);
  }

  // --- faults ---
  void strike() {
    const ProcessPtr process = processes_[static_cast<size_t>(draw(std::ssize(processes_)))];
    switch (draw(6)) {
      case 0:  // it dies, and another process comes, sooner or later
        if (process->lives) after(uniform(0, 12), [=, this] { start(process->who.task); });
        process->lives = false;
        if (rules_.reconnect_timeout) {
          send([=, this] { members_.disconnected(process->who, now_); });
        } else if (draw(2) == 0) {
          send([=, this] {
            if (const auto lost = members_.lose(process->who, "it ended")) note_loss(*lost, true);
          });
        }
        return;
      case 1:
        process->still_until = now_ + uniform(0, 12);
        return;
      case 2:  // a twin
        start(process->who.task);
        return;
      case 3:  // its connection breaks, and comes back while it lives
        if (!rules_.reconnect_timeout) return;
        send([=, this] { members_.disconnected(process->who, now_); });
        after(uniform(0, 4), [=, this] {
          act(process, [=, this] { send([=, this] { members_.connected(process->who); }); });
        });
        return;
      case 4:  // it asks twice
        send([=, this] {
          if (process->lives && members_.is_here(process->who)) join(process);
        });
        return;
      default:
        if (host_still_until_ > now_) return;
        stand_still();
    }
  }

  // Less than half of the time-out is silence like any other.
  void stand_still() {
    const bool forgiven = draw(3) > 0;
    host_still_until_ =
        now_ + (forgiven ? uniform(kTimeout / 2 + kLook, 20) : uniform(0, kTimeout / 2 - kLook));
    if (forgiven) host_stills_.emplace_back(now_, host_still_until_);
  }

  std::mt19937_64 random_;
  const MembershipRules rules_;
  Membership members_;
  double now_ = 0;
  uint64_t next_ = 0, incarnations_ = 0;
  std::map<std::pair<double, uint64_t>, std::function<void()>> events_;
  std::vector<ProcessPtr> processes_;  // by incarnation, from 1 on
  double host_still_until_ = 0, last_look_ = 0, woke_ = 0;
  int64_t admissions_ = 0;
  std::vector<std::pair<double, double>> host_stills_;
};

// Silence of less than the timeout loses no process, and longer silence is always found; messages
// of an earlier process keep no later one alive; a process that came in is lost once at most, and
// never after its goodbye; no process takes the place of a live one if twins wait.
void holds_for(const MembershipRules& rules) {
  int losses = 0, restarts = 0, refusals = 0, standstills = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    History history(seed, rules);
    history.run();
    if (testing::Test::HasFailure()) return;
    losses += history.losses;
    restarts += history.restarts;
    refusals += history.refusals;
    standstills += history.standstills;
  }
  // All of it happens.
  EXPECT_GT(losses, 300);
  EXPECT_GT(standstills, 300);
  EXPECT_TRUE(restarts > 100 || (rules.twins_wait && !rules.reconnect_timeout));
  EXPECT_TRUE(refusals > 100 || !rules.twins_wait);
}

TEST(MembershipSimulation, OfTasksInStep) {
  holds_for({.heartbeat_timeout = kTimeout, .reconnect_timeout = 2, .twins_wait = true});
}

TEST(MembershipSimulation, OfTasksThatGather) {
  holds_for({.heartbeat_timeout = kTimeout, .twins_wait = true});
}

TEST(MembershipSimulation, OfWorkersOfServersAndOfThoseThatMakeCalls) {
  holds_for({.heartbeat_timeout = kTimeout});
}

}  // namespace
}  // namespace muster::inline v0_1::plan
