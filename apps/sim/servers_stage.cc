#include "apps/sim/servers_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::sim {
namespace {

namespace ledger = net::ledger;

constexpr double kJoinTime = 200;  // seconds, longer than all faults together

enum ServersFault {
  kServerDies,
  kServerIsAskedToStop,
  kServerStands,
  kServerIsCutOff,
  kWorkerDisconnects,
  kWorkerStands,
  kWorkerIsCutOff,
  kWorkerDies,
  kWorkerIsGone,
  kMessagesAreLate,
  kServersFaults
};

std::string name_of_worker(int rank) {
  return rank == 0 ? "the chief" : fmt::format("worker {}", rank - 1);
}

// Changes what the ledger answers, where a mistake is planted there.
void plant(const PlantedServers& planted, const std::string& first, const std::string& request,
           std::string& answer) {
  const auto purpose = net::decode<net::Handshake>(first).purpose;
  if (purpose != net::Purpose::kLedger || request == first || net::error_in(answer)) return;
  const auto asked = net::decode<ledger::Request>(request).operation;
  if (std::holds_alternative<ledger::Resolve>(asked) && planted.forgets_on_loss)
    answer = net::encode_answer(ledger::Resolved());
  if (!std::holds_alternative<ledger::Join>(asked) || planted.skips == 0) return;
  auto joined = net::decode_answer<ledger::Joined>(answer);
  if (joined.position.empty()) return;
  joined.position = std::to_string(std::stoll(joined.position) + planted.skips);
  answer = net::encode_answer(joined);
}

}  // namespace

ServersStage::ServersStage(uint64_t seed, const std::vector<Fault>& faults, Options options,
                           Trace& trace)
    : options_(std::move(options)),
      workers_(static_cast<size_t>(options_.workers)),
      servers_(static_cast<size_t>(options_.servers)),
      stage_(seed, trace),
      sockets_(stage_.simulated, {.delay = [this] { return delay(); }}) {
  const PlantedServers& planted = options_.planted;
  if (planted.forgets_on_loss || planted.skips != 0) {
    sockets_.change_answers([&planted](const auto& first, const auto& request, auto& answer) {
      plant(planted, first, request, answer);
    });
  }
  for (int index = 0; index < servers(); ++index) stage_.at(0, [=, this] { start_server(index); });
  for (int rank = 0; rank < workers(); ++rank) stage_.at(0, [=, this] { start_worker(rank); });
  for (const Fault& fault : faults) {
    stage_.at(fault.at, [this, &fault] {
      if (faults_are_over_) return;
      note(fault.text);
      strike(fault);
    });
  }
}

void ServersStage::run_stage(double until) {
  stage_.run(until, [this] {
    return servers_have_ended() &&
           std::ranges::all_of(workers_, [](const Task& task) { return task.done; });
  });
}

bool ServersStage::servers_have_ended() const {
  return std::ranges::all_of(servers_, [](const Task& task) { return task.done; });
}

void ServersStage::end_stage() {
  for (const auto* tasks : {&workers_, &servers_}) {
    for (const Task& task : *tasks) {
      if (task.process != nullptr) sockets_.end(*task.process);
    }
  }
  stage_.end();
}

double ServersStage::delay() {
  const auto one_in = [&](double n) { return stage_.simulated.uniform(0, n) < 1; };
  if (stage_.simulated.seconds() < late_until_ && one_in(3)) return stage_.simulated.uniform(0, 5);
  return stage_.simulated.uniform(0, one_in(20) ? 2 : 0.02);
}

// --- processes ---

void ServersStage::start(Task& task, const std::string& name,
                         const std::function<void(const Life&)>& body) {
  task.process = &stage_.make_process();
  ++task.life;
  task.alive = true;
  task.asked_at.reset();
  note(name + " begins");
  stage_.start(*task.process, [&task, body, life = task.life, process = task.process] {
    body({.task = task, .number = life, .process = *process});
  });
}

void ServersStage::start_worker(int rank) {
  start(workers_[static_cast<size_t>(rank)], name_of_worker(rank),
        [=, this](const Life& life) { work(rank, life); });
}

void ServersStage::start_server(int index) {
  start(servers_[static_cast<size_t>(index)], fmt::format("server {}", index),
        [=, this](const Life& life) { serve(index, life); });
}

distribute::StartOptions ServersStage::start_options(const Life& life, bool server, int index) {
  cluster::ResolvedCluster cluster{.is_chief = !server && index == 0,
                                   .rank = server ? -1 : index,
                                   .num_workers = workers(),
                                   .num_ps = servers(),
                                   .workers = {}};
  for (int rank = 0; rank < workers(); ++rank) {
    cluster.workers.emplace_back(rank == 0 ? "chief" : "worker", std::max(0, rank - 1));
    cluster.addresses.push_back(fmt::format("10.0.0.{}:2222", rank));
  }
  for (int s = 0; s < servers(); ++s)
    cluster.ps_addresses.push_back(fmt::format("10.0.1.{}:2222", s));
  cluster.task = server ? cluster::Task{"ps", index} : cluster.workers[static_cast<size_t>(index)];
  return {.cluster = std::move(cluster), .join_timeout = kJoinTime, .cancelled = [this, life] {
            return stage_.over() || life.over() || life.task.asked_at || servers_have_ended();
          }};
}

ps::Surroundings ServersStage::surroundings(Stage::Process& process) {
  return {.clock = &process,
          .start_thread =
              [this, &process](std::function<void()> body) {
                stage_.simulated.start(process, std::move(body));
                return [] {};
              },
          .connect = [this,
                      &process](const auto& options) { return sockets_.connect(process, options); },
          .serve =
              [this, &process](const auto& options, net::MessageServer::Serve answer) {
                const auto service = sockets_.serve(process, options, std::move(answer));
                return ps::Service{.address = options.address,
                                   .stop = [service] { net::SimulatedSockets::stop(*service); }};
              },
          .look = 0.25};
}

void ServersStage::work(int rank, const Life& life) {
  const std::string name = name_of_worker(rank);
  while (!stage_.over() && !life.over()) {
    try {
      Session session{.rank = rank,
                      .process = life.process,
                      .connections = std::make_shared<ps::ServerConnections>(
                          start_options(life, false, rank), options_.run, kJoinTime,
                          surroundings(life.process)),
                      .model = ServedCounts(workers(), servers())};
      if (rank == 0) chief_is_here_since_ = stage_.simulated.seconds();
      train(session);
      session.run.stop_push();
      session.connections->finish();
      if (stage_.over() || life.over()) return;
      note(name + " is done");
      life.task.alive = false;
      life.task.done = true;
      return;
    } catch (const Error& error) {
      if (stage_.over() || life.over()) return;
      if (rank == 0) chief_is_here_since_.reset();
      if (servers_have_ended()) {
        note(name + " finds no server any more");
        life.task.alive = false;
        life.task.done = true;
        return;
      }
      // Where the first server has to stop and no chief is there to save, the run ends, and is
      // started again.
      if (error.kind() == ErrorKind::kCancelled) {
        note(fmt::format("{} ends: {}", name, error.message()));
        life.task.alive = false;
        stage_.after(stage_.simulated.uniform(0.5, 3), [=, this] { start_worker(rank); });
        return;
      }
      require(error.kind() == ErrorKind::kPeerLost,
              fmt::format("a worker ends for a loss alone: {}", error.message()));
      // It joins again, in the same process.
      note(fmt::format("{} joins again: {}", name, error.message()));
    }
    life.process.sleep_for(from_seconds(0.5));
  }
}

void ServersStage::serve(int index, const Life& life) {
  const std::string name = fmt::format("server {}", index);
  const ps::Surroundings around = surroundings(life.process);
  const distribute::StartOptions start = start_options(life, true, index);
  try {
    ps::serve(
        start, options_.run,
        [this](VariableStore& variables, const std::string&) {
          return ServedCounts::build(variables, workers(), servers());
        },
        around);
    if (stage_.over() || life.over()) return;
    note(name + " is done");
    life.task.done = true;
  } catch (const Error& error) {
    if (stage_.over() || life.over()) return;
    const auto asked_at = life.task.asked_at;
    require(error.kind() == ErrorKind::kCancelled && asked_at,
            fmt::format("a server ends with the run, or when it is asked to: {}", error.message()));
    note(name + " has left");
    if (!faults_are_over_) left(*asked_at);
    chief_is_here_since_.reset();  // it has to come to the next process
    stage_.after(life.task.away, [=, this] {
      // Nothing starts it again after the end of the run.
      Task& task = servers_[static_cast<size_t>(index)];
      task.done = workers_.front().done;
      if (!task.done) start_server(index);
    });
  }
  life.task.alive = false;
}

// --- faults ---

void ServersStage::kill(Task& task) {
  // None of its threads has a turn before the end of the world.
  task.process->freeze_until(TimePoint::max());
  sockets_.end(*task.process);
  ++task.life;
  task.alive = false;
}

void ServersStage::strike(const Fault& fault) {
  if (fault.kind == kMessagesAreLate) {
    late_until_ = stage_.simulated.seconds() + fault.amount;
    return;
  }
  fault.kind < kWorkerDisconnects ? strike_server(fault, fault.task % servers())
                                  : strike_worker(fault, fault.task % workers());
}

void ServersStage::strike_server(const Fault& fault, int index) {
  Task& task = servers_[static_cast<size_t>(index)];
  const TimePoint until = stage_.simulated.now() + from_seconds(fault.amount);
  if (!task.alive) return;
  switch (fault.kind) {
    case kServerIsAskedToStop:
      if (options_.planted.leaves_at_once) {
        left(stage_.simulated.seconds());
        kill(task);
        return stage_.after(fault.amount, [=, this] { start_server(index); });
      }
      if (!task.asked_at) task.asked_at = stage_.simulated.seconds();
      task.away = fault.amount;
      break;
    case kServerStands:
      task.process->freeze_until(until);
      break;
    case kServerIsCutOff:
      sockets_.cut_until(*task.process, until);
      break;
    default:
      chief_is_here_since_.reset();
      kill(task);
      stage_.after(fault.amount, [=, this] { start_server(index); });
  }
}

void ServersStage::strike_worker(const Fault& fault, int rank) {
  Task& task = workers_[static_cast<size_t>(rank)];
  const TimePoint until = stage_.simulated.now() + from_seconds(fault.amount);
  if (!task.alive) return;
  if (rank == 0 && fault.kind != kWorkerStands && fault.kind != kWorkerIsCutOff)
    chief_is_here_since_.reset();
  switch (fault.kind) {
    case kWorkerDisconnects:
      sockets_.disconnect(*task.process);
      break;
    case kWorkerStands:
      task.process->freeze_until(until);
      break;
    case kWorkerIsCutOff:
      sockets_.cut_until(*task.process, until);
      break;
    default:
      kill(task);
      if (rank != 0 && fault.kind == kWorkerIsGone) {
        task.done = true;
        return gone(rank);
      }
      stage_.after(fault.amount, [=, this] { start_worker(rank); });
  }
}

std::vector<Fault> servers_faults(RandomKey key) {
  Random random(key);
  std::vector<Fault> faults(1 + random.uniform_below(6));
  for (Fault& fault : faults) {
    fault.at = 10 * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(kServersFaults));
    fault.task = static_cast<int>(random.uniform_below(12));
    fault.amount = 0.3 + (fault.kind == kWorkerStands ? 20 : 12) * random.uniform();
    const std::string server = fmt::format("server {} (modulo their number)", fault.task),
                      worker = fmt::format("worker {} (modulo their number)", fault.task);
    switch (fault.kind) {
      case kServerDies:
        fault.text = fmt::format("{} dies, and starts after {:.1f} s", server, fault.amount);
        break;
      case kServerIsAskedToStop:
        fault.text =
            fmt::format("{} is asked to stop, and starts {:.1f} s later", server, fault.amount);
        break;
      case kServerStands:
        fault.text = fmt::format("{} stands still for {:.1f} s", server, fault.amount);
        break;
      case kServerIsCutOff:
        fault.text = fmt::format("{} is cut off for {:.1f} s", server, fault.amount);
        break;
      case kWorkerDisconnects:
        fault.text = "the connections close of " + worker;
        break;
      case kWorkerStands:
        fault.text = fmt::format("{} stands still for {:.1f} s", worker, fault.amount);
        break;
      case kWorkerIsCutOff:
        fault.text = fmt::format("{} is cut off for {:.1f} s", worker, fault.amount);
        break;
      case kWorkerDies:
        fault.text = fmt::format("{} dies, and starts after {:.1f} s", worker, fault.amount);
        break;
      case kWorkerIsGone:
        fault.text = worker + " is gone for good, unless it is worker 0, the chief";
        break;
      default:
        fault.text = fmt::format("messages take up to 5 s, for {:.1f} s", fault.amount);
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

}  // namespace muster::sim
