#include "apps/sim/group_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/control/coordinator_client.h"

namespace muster::sim {
namespace {

using control::Coordinator;

constexpr double kLastBlow = 40;  // seconds: no fault begins later
constexpr double kLongestBlow = 15;
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
  kGroupFaults,
  // Of elastic groups alone.
  kMemberIsAsked = kGroupFaults,
  kMemberComesWrong,
  kElasticFaults
};

}  // namespace

// A coordinator with the planted mistakes.
class GroupStage::WrongCoordinator : public net::CoordinatorHandler {
 public:
  WrongCoordinator(Coordinator& right, const PlantedCoordinator& planted)
      : right_(right), planted_(planted) {}
  net::Reply join(const net::JoinRequest& request, const net::Call& call) override {
    return right_.join(request, call);
  }
  net::Reply beat(const net::BeatRequest& request) override { return hide(right_.beat(request)); }
  net::Reply declare_model(const net::ModelRequest& request) override {
    net::ModelRequest changed = request;
    if (planted_.takes_any_model) changed.signature.clear();
    return right_.declare_model(changed);
  }
  net::Reply barrier(const net::BarrierRequest& request, const net::Call& call) override {
    if (planted_.barriers_open_early && ++barriers_ % 20 == 0) return {};
    return hide(right_.barrier(request, call));
  }
  net::Reply store(const net::StoreRequest& request, const net::Call& call) override {
    return right_.store(request, call);
  }
  net::Reply fail(const net::FailRequest& request) override {
    if (planted_.ignores_reports && request.kind == ErrorKind::kPeerLost) return {};
    return right_.fail(request);
  }
  net::Reply goodbye(const net::GoodbyeRequest& request) override {
    return right_.goodbye(request);
  }
  void watch(const net::WatchRequest& request, const net::Call& call,
             const std::function<bool(const net::Reply&)>& send) override {
    right_.watch(request, call,
                 [&](const net::Reply& reply) { return planted_.hides_failures || send(reply); });
  }

 private:
  net::Reply hide(net::Reply reply) const {
    if (planted_.hides_failures && reply.verdict.state == plan::Verdict::State::kFailed)
      reply.verdict = {.state = plan::Verdict::State::kWaiting};
    return reply;
  }

  Coordinator& right_;
  const PlantedCoordinator& planted_;
  int barriers_ = 0;
};

GroupStage::GroupStage(uint64_t seed, const std::vector<Fault>& faults, Options options,
                       Trace& trace)
    : options_(std::move(options)),
      tasks_(static_cast<size_t>(options_.tasks)),
      stage_(seed, trace) {
  for (int rank = 0; rank < tasks(); ++rank) start_later(rank, 0, 5);
  for (const Fault& fault : faults) {
    stage_.at(fault.at, [this, &fault] {
      stage_.note(fault.text);
      strike(fault);
    });
  }
}

std::string GroupStage::name_of(int rank) {
  return rank == 0 ? "chief:0" : fmt::format("worker:{}", rank - 1);
}

void GroupStage::run_stage(double until, const std::function<bool()>& done) {
  stage_.run(until, [&] {
    check_waits();
    return done();
  });
}

void GroupStage::end_stage() {
  end_server();
  stage_.end();
}

// --- processes ---

void GroupStage::start_later(int rank, double least, double most) {
  stage_.after(stage_.simulated.uniform(least, most), [this, rank] { start(rank); });
}

void GroupStage::start(int rank) {
  Task& it = task(rank);
  if (it.alive || it.done) return;
  it = {.process = &stage_.make_process(),
        .life = it.life + 1,
        .alive = true,
        .differs = it.differs_next};
  if (rank == 0) start_server();
  stage_.start(*it.process, [this, rank, life = it.life, process = it.process] {
    note(fmt::format("{} begins", name_of(rank)));
    try {
      train(rank, *process);
    } catch (const Error& error) {
      note(fmt::format("{} ends: {}", name_of(rank), error.message()));
    }
    if (task(rank).life == life && task(rank).alive) end_process(rank);
  });
}

void GroupStage::end_process(int rank) {
  task(rank).alive = false;
  if (rank == 0) end_server();
  if (!stage_.over()) ended(rank);
}

void GroupStage::start_server() {
  Stage::Process& process = stage_.make_process();
  Coordinator::Options options{.look_interval = 1};
  options.group.first_epoch = 0;  // from the date
  options.group.min_members = options_.min_members;
  options.group.reconnect_timeout = options_.reconnect_timeout;
  for (int rank = 0; rank < tasks(); ++rank)
    options.group.roster.push_back({name_of(rank), fmt::format("10.0.0.{}:2222", rank)});
  Coordinator& coordinator = coordinators_.emplace_back(options, process);
  net::CoordinatorHandler* handler = &coordinator;
  const PlantedCoordinator& planted = options_.planted;
  if (planted.barriers_open_early || planted.hides_failures || planted.ignores_reports ||
      planted.takes_any_model) {
    wrong_.push_back(std::make_unique<WrongCoordinator>(coordinator, planted));
    handler = wrong_.back().get();
  }
  if (network_ == nullptr)
    network_ = std::make_unique<control::SimulatedNetwork>(stage_.simulated, *handler,
                                                           control::NetworkOptions{});
  network_->start_server(*handler, &process);
  server_ = &process;
  stage_.start(process, [&coordinator] { coordinator.tick_until_ended(); });
}

void GroupStage::end_server() {
  if (server_ == nullptr) return;
  server_->freeze_until(stage_.simulated.now());
  coordinators_.back().end();
  network_->end_server();
  server_ = nullptr;
}

void GroupStage::strike(const Fault& fault) {
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
    case kMemberIsAsked:
      it.asked = true;
      break;
    case kMemberComesWrong:
      it.differs_next = rank != 0;
      [[fallthrough]];
    case kMemberDies:
      // None of its threads gets a turn any more, and its connections close.
      it.process->freeze_until(TimePoint::max());
      network_->disconnect(it.process->number());
      disconnected(rank);
      end_process(rank);
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
      disconnected(rank);
  }
}

// --- a task ---

GroupStage::Waiting::Waiting(GroupStage& stage, int rank)
    : task_(stage.task(rank)), life_(task_.life) {
  task_.waits_since = stage.stage_.simulated.seconds();
}

GroupStage::Waiting::~Waiting() {
  if (task_.life == life_) task_.waits_since.reset();
}

control::JoinOptions GroupStage::join_options(int rank, Stage::Process& process) {
  return {
      .address = kCoordinator,
      .task = name_of(rank),
      .rank = rank,
      .world_size = tasks(),
      .incarnation = static_cast<uint64_t>(process.number()) + 1,
      .join_timeout = kGroupJoinTime,
      .clock = &process,
      .connect = [this, &process](const std::string&) -> std::unique_ptr<net::CoordinatorChannel> {
        if (network_ == nullptr) throw Error(ErrorKind::kUnavailable, "no process listens there");
        return network_->connect(process);
      }};
}

void GroupStage::pass_barrier(int rank, control::CoordinatorClient& client,
                              const std::string& name) {
  const Waiting waits(*this, rank);
  client.barrier(name);
}

void GroupStage::check_waits() {
  const double now = stage_.simulated.seconds();
  for (const Task& it : tasks_) {
    if (it.alive && it.waits_since && now - *it.waits_since > kLongestWait)
      return stage_.fail("no wait is longer than its bound");
  }
}

std::vector<Fault> group_faults(RandomKey key, bool elastic) {
  Random random(key);
  std::vector<Fault> faults(1 + random.uniform_below(5));
  for (Fault& fault : faults) {
    fault.at = kLastBlow * random.uniform() * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(elastic ? kElasticFaults : kGroupFaults));
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
      case kMemberIsAsked:
        fault.text = rank + " is asked to stop";
        break;
      case kMemberComesWrong:
        fault.text = rank + " is killed, and comes back with another model, unless it is the chief";
        break;
      default:
        fault.text = fmt::format("the date jumps by {:.0f} s", fault.amount);
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

}  // namespace muster::sim
