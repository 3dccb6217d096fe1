#include "apps/sim/elastic_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/control/coordinator_client.h"
#include "muster/distribute/elastic_run.h"
#include "muster/plan/coordinator_state.h"
#include "muster/train/memory_donor.h"
#include "muster/train/next_step.h"

namespace muster::sim {
namespace {

using control::CoordinatorClient;
using internal::NextStep;
using internal::RememberedStep;
using internal::StepWish;
using nlohmann::json;

constexpr double kElasticEnds = 900;  // seconds, whatever happens

// How a run is set up.
struct ElasticSetting {
  explicit ElasticSetting(uint64_t seed) {
    Random random(derive_key(seed, {id_of("elastic")}));
    tasks = 2 + static_cast<int>(random.uniform_below(3));
    least = 1 + static_cast<int>(random.uniform_below(static_cast<uint64_t>(tasks)));
    last_step = 6 + static_cast<int64_t>(random.uniform_below(12));
    save_every = 1 + static_cast<int64_t>(random.uniform_below(4));
    // That of elastic runs is 0.3 s. The coordinator looks eight times as often then, which takes
    // most of the time of a seed.
    reconnect_timeout = random.uniform_below(8) == 0 ? 0.3 : 2;
  }
  int tasks = 2, least = 1;
  int64_t last_step = 0, save_every = 1;
  double reconnect_timeout = 2;
};

// The state of a training: each example changes `weights` in a way that depends on all before it.
struct ElasticState {
  int64_t step = 0;
  int64_t next = 0;  // example
  uint64_t weights = 29;

  void train(int64_t first, int64_t count) {
    for (int64_t example = first; example < first + count; ++example)
      weights = derive_key(weights, {static_cast<uint64_t>(example)}).key;
    next = first + count;
    ++step;
  }
  bool operator==(const ElasticState&) const = default;
};

json to_json(const ElasticState& state) {
  return {{"step", state.step}, {"next", state.next}, {"weights", state.weights}};
}
ElasticState state_in(const json& text) {
  return {.step = text.at("step"), .next = text.at("next"), .weights = text.at("weights")};
}

class ElasticWorld : private GroupStage {
 public:
  ElasticWorld(uint64_t seed, const ElasticSetting& setting, const std::vector<Fault>& faults,
               const ElasticScenario::Planted& planted, Trace& trace)
      : GroupStage(seed, faults,
                   {.tasks = setting.tasks,
                    .min_members = setting.least,
                    .reconnect_timeout = setting.reconnect_timeout,
                    .planted = planted.coordinator},
                   trace),
        setting_(setting),
        planted_(planted) {}

  std::string run() {
    // The run is over with the chief; workers that come later end by themselves.
    run_stage(kElasticEnds,
              [this] { return task(0).done && std::ranges::none_of(all_tasks(), &Task::alive); });
    if (stage_.broken().empty() && saved_.step != setting_.last_step)
      stage_.fail(fmt::format("the last checkpoint is of step {}, not of {}", setting_.last_step,
                              saved_.step));
    end_stage();
    return stage_.broken();
  }

 private:
  // What a process keeps from group to group.
  struct Member {
    explicit Member(int least) : run(least, name_of(0)) {}
    distribute::ElasticRun run;
    RememberedStep remembered{};
    ElasticState state{};    // that is remembered
    int64_t reads_next = 0;  // the next example of its input
  };

  // By the coordinator's process and the epoch.
  struct Group {
    std::vector<int> ranks{};
    std::optional<ElasticState> begins{};
    std::map<int64_t, std::set<int>> come{};  // by step
    std::map<int64_t, ElasticState> made{};   // by step
    std::set<int64_t> talks{};  // steps after which members agree who leaves, and who may join
    bool newcomers = false;     // the chief has told the members of some
    bool broken = false;        // collectives of its members find no connection
  };
  using GroupId = std::pair<size_t, int64_t>;

  void ended(int rank) override {
    if (task(0).done) return;
    // `muster run` starts a worker again, and all tasks where the chief was lost.
    if (!task(rank).done) start_later(rank, 0.5, rank == 0 ? 4 : 20);
    if (rank != 0) return;
    for (int other = 1; other < tasks(); ++other) {
      if (!task(other).done || task(other).alive) continue;
      task(other).done = false;
      start_later(other, 0.5, 4);
    }
  }

  void disconnected(int rank) override {
    if (const auto in = in_group_.find(rank); in != in_group_.end())
      groups_[in->second].broken = true;
  }

  void train(int rank, Stage::Process& process) override {
    Member member(setting_.least);
    if (rank == 0) member.remembered.chief = fmt::format("process {}", process.number());
    for (;;) {
      std::unique_ptr<CoordinatorClient> client;
      try {
        client = join(rank, process, member);
        if (stage_.over()) return;
        stage_.simulated.await_threads(process, 3);
        if (train_in_group(rank, process, *client, member)) return;
      } catch (const Error& error) {
        if (stage_.over()) return;
        if (const auto failure = client ? client->first_failure() : std::nullopt)
          member.run.note_failure(*failure);
        const bool leaves = task(rank).asked;
        if (client) client->close(/*for_good=*/leaves);
        if (leaves || !member.run.goes_on_after(error)) throw;
        note(fmt::format("{} continues: {}", name_of(rank), error.message()));
        // The batches of a step that was not made are read again.
        if (planted_.reads_on && client) member.state.next = member.reads_next;
      }
    }
  }

  // As JoinedCluster joins.
  std::unique_ptr<CoordinatorClient> join(int rank, Stage::Process& process, Member& member) {
    control::JoinOptions options = join_options(rank, process);
    options.incarnation = ++incarnations_;
    options.lost_timeout = options.heartbeat_timeout + options.reconnect_timeout;
    options.answered_before = member.run.epoch() >= 0;
    member.run.begin_joining();
    try {
      return CoordinatorClient::join(options);
    } catch (...) {
      member.run.note_failure({.reason = "a member was lost while the group formed"});
      throw;
    }
  }

  // As JoinedCluster::gather_text().
  std::vector<json> gather(int rank, CoordinatorClient& client, const Group& group,
                           const std::string& name, const json& mine) {
    client.set(fmt::format("{}/{}", name, rank), mine.dump());
    pass_barrier(rank, client, name);
    std::vector<json> all;
    for (const int other : group.ranks)
      all.push_back(json::parse(client.get(fmt::format("{}/{}", name, other))));
    return all;
  }

  // Whether the run has ended; if not, the group has.
  bool train_in_group(int rank, Stage::Process& process, CoordinatorClient& client,
                      Member& member) {
    const GroupId id(coordinators(), client.epoch());
    Group& group = groups_[id];
    const std::string ranks = client.get(plan::kMembersKey);
    if (stage_.over()) return true;
    if (group.ranks.empty()) {
      for (const std::string& one : split(ranks, ',')) group.ranks.push_back(std::stoi(one));
      note(fmt::format("group {} of coordinator {} has the ranks {}", id.second, id.first, ranks));
    }
    std::vector<std::string> names;
    for (const int one : group.ranks) names.push_back(name_of(one));
    const bool was_here = member.run.has_made_steps();
    member.run.begin_group(client.epoch(), names);
    in_group_[rank] = id;
    meet(rank, client, group, member, was_here);
    if (stage_.over()) return true;
    client.declare_model({task(rank).differs ? "w float32[4]" : "w float32[3]"});
    ElasticState state = begin_state(rank, client, group, member);
    if (stage_.over()) return true;
    member.remembered.epoch = member.run.epoch();
    member.remembered.step = state.step;
    member.state = state;
    bool must_leave = false;
    while (state.step < setting_.last_step) {
      client.report(plan::Phase::kTraining, state.step);
      member.reads_next = state.next + std::ssize(group.ranks);
      process.sleep_for(from_seconds(stage_.simulated.uniform(0.1, 1.5)));
      if (stage_.over()) return true;
      require(!must_leave, "a task that is asked to stop makes one step at most");
      must_leave = task(rank).asked;
      if (must_leave && !planted_.stays) group.talks.insert(state.step + 1);
      if (rank == 0 && coordinator().newcomers() > 0) {
        require(!std::exchange(group.newcomers, true),
                "a group ends after the step in which a worker has come");
        group.talks.insert(state.step + 1);
      }
      make_step(rank, process, client, id, group, state);
      if (stage_.over()) return true;
      member.run.keep_newcomers();
      member.remembered.step = state.step;
      member.state = state;
      const bool is_last = state.step == setting_.last_step;
      if (rank == 0 && (state.step % setting_.save_every == 0 || is_last)) save(state);
      if (is_last || !group.talks.contains(state.step)) continue;
      const NextStep next = agree(rank, client, group, member);
      if (stage_.over()) return true;
      if (next == NextStep::kStep || next == NextStep::kStepWithout) continue;
      if (next == NextStep::kRegroup) break;
      leave(rank, client, state, next);
      return true;
    }
    // As RunDriver at its end: the group before may have been lost before it saved the last step.
    if (rank == 0 && state.step == setting_.last_step && state.step > saved_.step) save(state);
    client.last_barrier();
    client.done();
    if (stage_.over()) return true;
    if (state.step < setting_.last_step) return false;
    task(rank).done = true;
    note(fmt::format("{} is done", name_of(rank)));
    if (rank == 0) (void)coordinator().wait_until_drained(10);
    return true;
  }

  // As JoinedCluster lets the members meet: who was in a group before.
  void meet(int rank, CoordinatorClient& client, const Group& group, Member& member,
            bool was_here) {
    const std::vector<json> all = gather(rank, client, group, "was here", was_here);
    if (stage_.over()) return;
    std::vector<bool> were_here;
    for (const json& one : all) were_here.push_back(one.get<bool>());
    const auto place = std::ranges::find(group.ranks, rank) - group.ranks.begin();
    member.run.meet(were_here, static_cast<int>(place));
  }

  // As RunDriver::agree_on_next().
  NextStep agree(int rank, CoordinatorClient& client, Group& group, const Member& member) {
    const StepWish mine{.signal = task(rank).asked,
                        .newcomers = rank == 0 && coordinator().newcomers() > 0};
    std::vector<std::string> all;
    for (const json& one : gather(rank, client, group, "elastic", mine.text()))
      all.push_back(one.get<std::string>());
    if (stage_.over()) return NextStep::kEnd;
    const auto place = std::ranges::find(group.ranks, rank) - group.ranks.begin();
    const NextStep next =
        internal::next_step(all, /*locals=*/1, static_cast<int>(place),
                            [&](int leaving) { return member.run.can_spare(leaving); });
    if (next == NextStep::kRegroup && planted_.ignores_newcomers) return NextStep::kStep;
    // The worker that came is lost already, or joins the group without those that leave.
    if (rank == 0 && (next == NextStep::kStep || next == NextStep::kStepWithout))
      group.newcomers = false;
    return next;
  }

  // It was asked to stop: alone, or the run ends, and is started again.
  void leave(int rank, CoordinatorClient& client, const ElasticState& state, NextStep next) {
    if (next == NextStep::kLeave) {
      client.fail(ErrorKind::kCancelled, "it was asked to stop");
      client.close(/*for_good=*/true);
    } else {
      if (rank == 0 && state.step > saved_.step) save(state);
      client.last_barrier();
      client.done();
      if (rank == 0) (void)coordinator().wait_until_drained(10);
    }
    note(fmt::format("{} has left, as it was asked to, after step {}", name_of(rank), state.step));
  }

  // The state that the group begins with, as continue_from_memory() finds it.
  ElasticState begin_state(int rank, CoordinatorClient& client, Group& group, Member& member) {
    json mine = to_json(member.state);
    mine["chief"] = member.remembered.chief;
    mine["epoch"] = member.remembered.epoch;
    const std::vector<json> all = gather(rank, client, group, "memory", mine);
    if (stage_.over()) return {};
    std::vector<RememberedStep> steps;
    for (const json& one : all) {
      const int64_t epoch = one.at("epoch");
      steps.push_back({one.at("chief"), epoch, epoch < 0 ? -1 : one.at("step").get<int64_t>()});
    }
    if (member.remembered.chief != steps.front().chief)
      member.remembered = {.chief = steps.front().chief};
    int donor = internal::find_donor(steps);
    for (size_t i = 0; donor >= 0 && planted_.least_gives && i < steps.size(); ++i) {
      if (steps[i].epoch >= 0 && steps[i].step < steps[static_cast<size_t>(donor)].step)
        donor = static_cast<int>(i);
    }
    ElasticState state;
    if (donor >= 0) {
      state = state_in(all[static_cast<size_t>(donor)]);
    } else {
      if (rank == 0) client.set("resume", to_json(saved_).dump());
      state = state_in(json::parse(client.get("resume")));
      if (stage_.over()) return {};
    }
    if (!group.begins) {
      group.begins = state;
      // Another member may stand still here until later groups have saved.
      require(state.step >= saved_.step, "a group does not begin before the last checkpoint");
      note(fmt::format("the group begins after step {}{}", state.step,
                       donor < 0 ? ", from the checkpoint"
                                 : fmt::format(", from the memory of rank {}",
                                               group.ranks[static_cast<size_t>(donor)])));
    }
    require(*group.begins == state, "all members of a group begin with one state");
    require(member.remembered.epoch < 0 || member.remembered.epoch < last_epoch_ ||
                state.step >= member.remembered.step,
            "no step of a member of the last group is lost");
    return state;
  }

  // As JoinedCluster::explain() reports a collective that lost a connection: throws what the
  // coordinator says of it.
  void report_broken(int rank, Stage::Process& process, CoordinatorClient& client) {
    const Waiting waits(*this, rank);
    while (!client.first_failure()) {
      client.report_lost_connection("a collective lost a connection");
      for (int look = 0; look < 10 && !client.first_failure(); ++look) {
        process.sleep_for(from_seconds(0.1));
        if (stage_.over()) return;
      }
    }
    client.check_failure();
  }

  void make_step(int rank, Stage::Process& process, CoordinatorClient& client, const GroupId& id,
                 Group& group, ElasticState& state) {
    if (group.broken) return report_broken(rank, process, client);
    auto& come = group.come[state.step];
    come.insert(rank);
    pass_barrier(rank, client, "step");
    if (stage_.over()) return;
    require(come.size() == group.ranks.size(),
            "a barrier lets no member through before all have come");
    // A worker that the others have given up may hear late that a step was made.
    require(id >= active_ || std::ranges::count(groups_[active_].ranks, rank) == 0,
            "no member of the newest group makes a step of an earlier one");
    require(!task(rank).differs, "no worker with another model makes a step");
    active_ = std::max(active_, id);
    last_epoch_ = active_.second;
    state.train(state.next, std::ssize(group.ranks));
    ElasticState right;
    while (right.next < state.next) right.train(right.next, 1);
    require(right.weights == state.weights, "each example is in the weights once");
    require(group.made.emplace(state.step, state).first->second == state,
            "all members of a group make the same step");
  }

  void save(const ElasticState& state) {
    require(state.step > saved_.step, "the steps that count are made once, in order");
    saved_ = state;
    note(fmt::format("step {} is saved", state.step));
  }

  const ElasticSetting setting_;
  const ElasticScenario::Planted& planted_;
  uint64_t incarnations_ = 0;
  std::map<GroupId, Group> groups_;
  std::map<int, GroupId> in_group_;  // the last one of each rank
  GroupId active_{};                 // the last that made a step
  int64_t last_epoch_ = -1;
  ElasticState saved_{};
};

}  // namespace

std::vector<Fault> ElasticScenario::faults(uint64_t seed) const {
  return group_faults(derive_key(seed, {id_of("elastic"), id_of("faults")}), /*elastic=*/true);
}

std::string ElasticScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                                 Trace& trace) const {
  return ElasticWorld(seed, ElasticSetting(seed), faults, planted_, trace).run();
}

}  // namespace muster::sim
