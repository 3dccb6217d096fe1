#include "apps/sim/group_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "apps/sim/stage.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/control/coordinator.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/testing/simulated_network.h"

namespace muster::sim {
namespace {

using control::Coordinator;
using control::CoordinatorClient;

constexpr double kLastBlow = 40;  // seconds: no fault begins later
constexpr double kLongestBlow = 15;
constexpr double kGroupEnds = 600;  // whatever happens
constexpr double kGroupJoinTime = 90;
constexpr const char* kCoordinator = "chief:2222";
// The longest step, silence of a member, the news of it on a rough network, and a standstill of
// this task itself.
constexpr double kLongestWait = 2 + 6 + 2 + 10 + kLongestBlow;

enum GroupFault {
  kMemberDies,
  kMemberStands,
  kMemberIsCutOff,
  kMemberDisconnects,
  kRoughNetwork,
  kDateJump,
  kGroupFaults
};

std::string group_task(int rank) {
  return rank == 0 ? "chief:0" : fmt::format("worker:{}", rank - 1);
}

// A coordinator with the planted mistakes.
class WrongCoordinator : public net::CoordinatorHandler {
 public:
  WrongCoordinator(Coordinator& right, const GroupScenario::Planted& planted)
      : right_(right), planted_(planted) {}
  net::Reply join(const net::JoinRequest& request, const net::Call& call) override {
    return right_.join(request, call);
  }
  net::Reply beat(const net::BeatRequest& request) override { return hide(right_.beat(request)); }
  net::Reply declare_model(const net::ModelRequest& request) override {
    return right_.declare_model(request);
  }
  net::Reply barrier(const net::BarrierRequest& request, const net::Call& call) override {
    if (planted_.barriers_open_early && ++barriers_ % 20 == 0) return {};
    return hide(right_.barrier(request, call));
  }
  net::Reply store(const net::StoreRequest& request, const net::Call& call) override {
    return right_.store(request, call);
  }
  net::Reply fail(const net::FailRequest& request) override { return right_.fail(request); }
  net::Reply goodbye(const net::GoodbyeRequest& request) override {
    return right_.goodbye(request);
  }
  void watch(const plan::Caller& who, const net::Call& call,
             const std::function<bool(const net::Reply&)>& send) override {
    right_.watch(who, call,
                 [&](const net::Reply& reply) { return planted_.hides_failures || send(reply); });
  }

 private:
  net::Reply hide(net::Reply reply) const {
    if (planted_.hides_failures && reply.verdict.state == plan::Verdict::State::kFailed)
      reply.verdict = {.state = plan::Verdict::State::kWaiting};
    return reply;
  }

  Coordinator& right_;
  const GroupScenario::Planted& planted_;
  int barriers_ = 0;
};

class GroupWorld {
 public:
  GroupWorld(uint64_t seed, const std::vector<Fault>& faults, const GroupScenario::Planted& planted,
             Trace& trace)
      : planted_(planted), stage_(seed, trace) {
    Random random(derive_key(seed, {id_of("group")}));
    tasks_.resize(2 + random.uniform_below(3));
    last_step_ = 5 + static_cast<int64_t>(random.uniform_below(10));
    save_every_ = 1 + static_cast<int64_t>(random.uniform_below(3));
    for (int rank = 0; rank < tasks(); ++rank)
      stage_.at(5 * random.uniform(), [this, rank] { start(rank); });
    for (const Fault& fault : faults) {
      stage_.at(fault.at, [this, &fault] {
        stage_.note(fault.text);
        strike(fault);
      });
    }
  }

  std::string run() {
    stage_.run(kGroupEnds, [this] {
      check_waits();
      return std::ranges::all_of(tasks_, [](const Task& task) { return task.done && !task.alive; });
    });
    if (stage_.broken().empty() && saved_ != last_step_)
      stage_.fail(fmt::format("the last checkpoint is of step {}, not of {}", last_step_, saved_));
    end_server();
    stage_.end();
    return stage_.broken();
  }

 private:
  struct Task {
    Stage::Process* process = nullptr;
    int life = 0;
    bool alive = false;
    std::optional<double> waits_since{};  // at a barrier
    bool done = false;                    // it has made the last step, and met all others after it
  };

  int tasks() const { return static_cast<int>(tasks_.size()); }
  Task& task(int rank) { return tasks_[static_cast<size_t>(rank)]; }

  // --- processes ---

  void start(int rank) {
    Task& it = task(rank);
    if (it.alive || it.done) return;
    it = {.process = &stage_.make_process(), .life = it.life + 1, .alive = true};
    if (rank == 0) start_server();
    stage_.start(*it.process, [this, rank, life = it.life, process = it.process] {
      if (stage_.keeps_trace()) stage_.note(fmt::format("{} begins", group_task(rank)));
      try {
        train(rank, *process);
      } catch (const Error& error) {
        if (stage_.keeps_trace())
          stage_.note(fmt::format("{} ends: {}", group_task(rank), error.message()));
      }
      if (task(rank).life == life && task(rank).alive) ended(rank);
    });
  }

  void ended(int rank) {
    task(rank).alive = false;
    if (rank == 0) end_server();
    if (stage_.over() || task(rank).done) return;
    // Its scheduler starts it again, and also those that have ended well, since it needs them.
    stage_.after(stage_.simulated.uniform(0.5, 4), [this, rank] { start(rank); });
    for (int other = 0; other < tasks(); ++other) {
      if (!task(other).done || task(other).alive) continue;
      task(other).done = false;
      stage_.after(stage_.simulated.uniform(0.5, 4), [this, other] { start(other); });
    }
  }

  void start_server() {
    Stage::Process& process = stage_.make_process();
    Coordinator::Options options{.look_interval = 1};
    options.group.first_epoch = 0;  // from the date
    for (int rank = 0; rank < tasks(); ++rank)
      options.group.roster.push_back({group_task(rank), fmt::format("10.0.0.{}:2222", rank)});
    Coordinator& coordinator = coordinators_.emplace_back(options, process);
    wrong_.emplace_back(coordinator, planted_);
    net::CoordinatorHandler& handler = planted_.barriers_open_early || planted_.hides_failures
                                           ? static_cast<net::CoordinatorHandler&>(wrong_.back())
                                           : coordinator;
    if (network_ == nullptr)
      network_ = std::make_unique<control::SimulatedNetwork>(stage_.simulated, handler,
                                                             control::NetworkOptions{});
    network_->start_server(handler, &process);
    server_ = &process;
    stage_.start(process, [&coordinator] { coordinator.tick_until_ended(); });
  }

  void end_server() {
    if (server_ == nullptr) return;
    server_->freeze_until(stage_.simulated.now());
    coordinators_.back().end();
    network_->end_server();
    server_ = nullptr;
  }

  void strike(const Fault& fault) {
    const int rank = fault.task % tasks();
    Task& it = task(rank);
    const TimePoint until = stage_.simulated.now() + from_seconds(fault.amount);
    if (fault.kind == kDateJump) return stage_.simulated.jump_wall(fault.amount);
    if (fault.kind == kRoughNetwork) {
      if (network_ == nullptr) return;
      network_->set_options({.longest_delay = 0.4, .loss = 0.05, .duplicates = 0.2});
      stage_.after(fault.amount, [this] { network_->set_options({}); });
      return;
    }
    if (!it.alive || network_ == nullptr) return;
    switch (fault.kind) {
      case kMemberDies:
        // None of its threads gets a turn any more, and its connections close.
        it.process->freeze_until(TimePoint::max());
        network_->disconnect(it.process->number());
        ended(rank);
        break;
      case kMemberStands:
        it.process->freeze_until(until);
        if (rank == 0 && server_ != nullptr) server_->freeze_until(until);
        break;
      case kMemberIsCutOff:
        network_->cut_until(it.process->number(), until);
        break;
      default:
        network_->disconnect(it.process->number());
    }
  }

  // --- a task ---

  control::JoinOptions join_options(int rank, Stage::Process& process) {
    return {.address = kCoordinator,
            .task = group_task(rank),
            .rank = rank,
            .world_size = tasks(),
            .incarnation = static_cast<uint64_t>(process.number()) + 1,
            .join_timeout = kGroupJoinTime,
            .clock = &process,
            .connect = [this,
                        &process](const std::string&) -> std::unique_ptr<net::CoordinatorChannel> {
              if (network_ == nullptr)
                throw Error(ErrorKind::kUnavailable, "no process listens there");
              return network_->connect(process);
            }};
  }

  void train(int rank, Stage::Process& process) {
    const auto client = CoordinatorClient::join(join_options(rank, process));
    if (stage_.over()) return;
    stage_.simulated.await_threads(process, 3);
    const auto group =
        groups_.emplace(std::pair(coordinators_.size(), client->epoch()), groups_.size())
            .first->second;
    if (stage_.keeps_trace())
      stage_.note(
          fmt::format("{} joins group {}, epoch {}", group_task(rank), group, client->epoch()));
    if (rank == 0) client->set("resume", std::to_string(saved_));
    int64_t step = std::stoll(client->get("resume"));
    client->declare_model({"w float32[3]"});
    for (int64_t nth = 0; step < last_step_; ++nth) {
      client->report(plan::Phase::kTraining, step);
      process.sleep_for(from_seconds(stage_.simulated.uniform(0.1, 1.5)));
      if (stage_.over()) return;
      meet(rank, *client, group, nth, step);
      ++step;
      if (rank == 0 && (step % save_every_ == 0 || step == last_step_)) save(step);
    }
    client->last_barrier();
    client->done();
    if (stage_.over()) return;
    task(rank).done = true;
    if (stage_.keeps_trace()) stage_.note(fmt::format("{} is done", group_task(rank)));
    if (rank == 0) (void)coordinators_.back().wait_until_drained(10);
  }

  void check_waits() {
    const double now = stage_.simulated.seconds();
    for (const Task& it : tasks_) {
      if (it.alive && it.waits_since && now - *it.waits_since > kLongestWait)
        return stage_.fail("no wait is longer than its bound");
    }
  }

  // The meeting of all members in a step: the sum of their gradients.
  void meet(int rank, CoordinatorClient& client, size_t group, int64_t nth, int64_t step) {
    auto& come = come_[{group, nth}];
    come.insert(rank);
    task(rank).waits_since = stage_.simulated.seconds();
    client.barrier("step");
    if (stage_.over()) return;
    task(rank).waits_since.reset();
    require(std::ssize(come) == tasks(), "a barrier lets no member through before all have come");
    require(group >= active_, "no group passes a barrier when a later one has");
    active_ = group;
    const auto same = steps_.emplace(std::pair(group, nth), step).first->second;
    require(same == step, "all members of a group make the same step");
  }

  void save(int64_t step) {
    require(step > saved_, "the steps that count are made once, in order");
    saved_ = step;
    if (stage_.keeps_trace()) stage_.note(fmt::format("step {} is saved", step));
  }

  const GroupScenario::Planted& planted_;
  std::vector<Task> tasks_;
  int64_t last_step_ = 0, save_every_ = 1;
  std::deque<Coordinator> coordinators_;  // the last one serves, or has ended
  std::deque<WrongCoordinator> wrong_;
  std::unique_ptr<control::SimulatedNetwork> network_;
  Stage::Process* server_ = nullptr;  // nullptr: there is none
  int64_t saved_ = 0;
  std::map<std::pair<size_t, int64_t>, size_t> groups_;       // numbers, by server and epoch
  size_t active_ = 0;                                         // the last that passed a barrier
  std::map<std::pair<size_t, int64_t>, std::set<int>> come_;  // ranks, by group and barrier
  std::map<std::pair<size_t, int64_t>, int64_t> steps_;       // by group and barrier
  Stage stage_;  // the last member: its threads use the others until it ends
};

}  // namespace

std::vector<Fault> GroupScenario::faults(uint64_t seed) const {
  Random random(derive_key(seed, {id_of("group"), id_of("faults")}));
  std::vector<Fault> faults(1 + random.uniform_below(5));
  for (Fault& fault : faults) {
    fault.at = kLastBlow * random.uniform() * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(kGroupFaults));
    fault.task = static_cast<int>(random.uniform_below(12));
    fault.amount = kLongestBlow * random.uniform();
    if (fault.kind == kDateJump) fault.amount = 20'000 * (random.uniform() - 0.5);
    const std::string rank = fmt::format("rank {} (modulo their number)", fault.task);
    switch (fault.kind) {
      case kMemberDies:
        fault.text = rank + " is killed";
        break;
      case kMemberStands:
        fault.text = fmt::format("{} stands still for {:.1f} s", rank, fault.amount);
        break;
      case kMemberIsCutOff:
        fault.text = fmt::format("{} is cut off for {:.1f} s", rank, fault.amount);
        break;
      case kMemberDisconnects:
        fault.text = "the connections close of " + rank;
        break;
      case kRoughNetwork:
        fault.text =
            fmt::format("the network delays, loses and repeats for {:.1f} s", fault.amount);
        break;
      default:
        fault.text = fmt::format("the date jumps by {:.0f} s", fault.amount);
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

std::string GroupScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                               Trace& trace) const {
  return GroupWorld(seed, faults, planted_, trace).run();
}

}  // namespace muster::sim
