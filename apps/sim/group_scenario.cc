#include "apps/sim/group_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "muster/base/random.h"
#include "muster/control/coordinator_client.h"

namespace muster::sim {
namespace {

using control::CoordinatorClient;

constexpr double kGroupEnds = 600;  // seconds, whatever happens

// How a run is set up.
struct GroupSetting {
  explicit GroupSetting(uint64_t seed) {
    Random random(derive_key(seed, {id_of("group")}));
    tasks = 2 + static_cast<int>(random.uniform_below(3));
    last_step = 5 + static_cast<int64_t>(random.uniform_below(10));
    save_every = 1 + static_cast<int64_t>(random.uniform_below(3));
  }
  int tasks = 2;
  int64_t last_step = 0, save_every = 1;
};

class GroupWorld : private GroupStage {
 public:
  GroupWorld(uint64_t seed, const GroupSetting& setting, const std::vector<Fault>& faults,
             const PlantedCoordinator& planted, Trace& trace)
      : GroupStage(seed, faults, {.tasks = setting.tasks, .planted = planted}, trace),
        setting_(setting) {}

  std::string run() {
    run_stage(kGroupEnds, [this] {
      return std::ranges::all_of(all_tasks(),
                                 [](const Task& task) { return task.done && !task.alive; });
    });
    if (stage_.broken().empty() && saved_ != setting_.last_step)
      stage_.fail(
          fmt::format("the last checkpoint is of step {}, not of {}", setting_.last_step, saved_));
    end_stage();
    return stage_.broken();
  }

 private:
  // A scheduler starts it again, and also those that have ended well, since it needs them.
  void ended(int rank) override {
    if (task(rank).done) return;
    start_later(rank, 0.5, 4);
    for (int other = 0; other < tasks(); ++other) {
      if (!task(other).done || task(other).alive) continue;
      task(other).done = false;
      start_later(other, 0.5, 4);
    }
  }

  void train(int rank, Stage::Process& process) override {
    const auto client = CoordinatorClient::join(join_options(rank, process));
    if (stage_.over()) return;
    stage_.simulated.await_threads(process, 3);
    const auto group =
        groups_.emplace(std::pair(coordinators(), client->epoch()), groups_.size()).first->second;
    note(fmt::format("{} joins group {}, epoch {}", name_of(rank), group, client->epoch()));
    if (rank == 0) client->set("resume", std::to_string(saved_));
    int64_t step = std::stoll(client->get("resume"));
    client->declare_model({"w float32[3]"});
    for (int64_t nth = 0; step < setting_.last_step; ++nth) {
      client->report(plan::Phase::kTraining, step);
      process.sleep_for(from_seconds(stage_.simulated.uniform(0.1, 1.5)));
      if (stage_.over()) return;
      meet(rank, *client, group, nth, step);
      ++step;
      if (rank == 0 && (step % setting_.save_every == 0 || step == setting_.last_step)) save(step);
    }
    client->last_barrier();
    client->done();
    if (stage_.over()) return;
    task(rank).done = true;
    note(fmt::format("{} is done", name_of(rank)));
    if (rank == 0) (void)coordinator().wait_until_drained(10);
  }

  // The meeting of all members in a step: the sum of their gradients.
  void meet(int rank, CoordinatorClient& client, size_t group, int64_t nth, int64_t step) {
    auto& come = come_[{group, nth}];
    come.insert(rank);
    pass_barrier(rank, client, "step");
    if (stage_.over()) return;
    require(std::ssize(come) == tasks(), "a barrier lets no member through before all have come");
    require(group >= active_, "no group passes a barrier when a later one has");
    active_ = group;
    const auto same = steps_.emplace(std::pair(group, nth), step).first->second;
    require(same == step, "all members of a group make the same step");
  }

  void save(int64_t step) {
    require(step > saved_, "the steps that count are made once, in order");
    saved_ = step;
    note(fmt::format("step {} is saved", step));
  }

  const GroupSetting setting_;
  int64_t saved_ = 0;
  std::map<std::pair<size_t, int64_t>, size_t> groups_;       // numbers, by server and epoch
  size_t active_ = 0;                                         // the last that passed a barrier
  std::map<std::pair<size_t, int64_t>, std::set<int>> come_;  // ranks, by group and barrier
  std::map<std::pair<size_t, int64_t>, int64_t> steps_;       // by group and barrier
};

}  // namespace

std::vector<Fault> GroupScenario::faults(uint64_t seed) const {
  return group_faults(derive_key(seed, {id_of("group"), id_of("faults")}), /*elastic=*/false);
}

std::string GroupScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                               Trace& trace) const {
  return GroupWorld(seed, GroupSetting(seed), faults, planted_, trace).run();
}

}  // namespace muster::sim
