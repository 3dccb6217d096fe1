#include "muster/ps/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/net/traffic.h"
#include "muster/plan/activity.h"
#include "muster/plan/failure.h"
#include "muster/plan/measure_source.h"
#include "muster/plan/membership.h"
#include "muster/ps/internal/ledger_host.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/shard_server.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {
namespace {

using distribute::ParameterServerOptions;
using distribute::StartOptions;
using Wanted = ledger::Wanted::State;

constexpr double kGoodbyeTimeout = 10;
constexpr double kLastAnswerTimeout = 2;
constexpr double kStopGraceSeconds = 600;
// A worker has three to five, and for a moment those of a process of it that is gone.
constexpr size_t kConnectionsEach = 8;
constexpr size_t kConnections = 1024;
constexpr size_t kUnproved = 32;
// A worker may be silent on a connection for as long as it lives.
constexpr double kRequestTimeout = 3600;
constexpr double kResolveTimeout = 5;
constexpr double kAskForSaveEvery = 1;
constexpr double kAskForSaveTimeout = 1;

// By how many steps a worker may be ahead when it claims one. Weights that come while a step is
// computed are those of the claim before.
std::optional<int64_t> staleness_at_claims(const ParameterServerOptions& options) {
  if (!options.max_staleness) return std::nullopt;
  return *options.max_staleness - (options.overlap ? 1 : 0);
}

class Server {
 public:
  Server(const StartOptions& start, const ParameterServerOptions& options,
         const distribute::BuildModel& build, const Surroundings& surroundings)
      : start_(start),
        options_(options),
        surroundings_(surroundings),
        name_(plan::readable_task(start.cluster.task.name())),
        shards_(
            name_, start.seed, build,
            [this](int64_t generation, const ledger::Resolve& asked) {
              return resolve(generation, asked);
            },
            options.replicas_to_aggregate > 0, options.wire_dtype,
            options.shared_memory && options.wire_dtype == kFloat32,
            PartFiles(start.model_dir, start.fs), *surroundings.clock) {
    if (start.cluster.task.index == 0) {
      LedgerHost::Options ledger{.ledger = {.workers = start.cluster.num_workers,
                                            .max_staleness = staleness_at_claims(options),
                                            .aggregate = options.replicas_to_aggregate,
                                            .rejoin_timeout = options.rejoin_timeout.count()},
                                 .heartbeat_timeout = options.heartbeat_timeout.count(),
                                 .clock = surroundings.clock};
      ledger.look = std::max(ledger.look, surroundings.look);
      for (const auto& task : start.cluster.workers)
        ledger.tasks.push_back(plan::readable_task(task.name()));
      ledger_ = std::make_unique<LedgerHost>(std::move(ledger));
    }
    chief_.heard = now();
  }

  void run() {
    const Service service = surroundings_.serve(
        {.address = start_.cluster.ps_addresses[static_cast<size_t>(start_.cluster.task.index)],
         .job = start_.cluster.job,
         .task = start_.cluster.task.name(),
         .max_connections = std::max(kConnections, kConnectionsEach * workers()),
         .idle_timeout_seconds = options_.idle_timeout.count(),
         .max_unproved_connections = kUnproved + kConnectionsEach * workers()},
        [this](net::MessageSocket& socket) { serve(socket); });
    log::info(fmt::format("{} serves at {}", name_, service.address));
    const plan::MeasureSource seen([this] { return measures(); });
    const std::optional<Error> end = wait_for_end();
    if (!end) {
      if (ledger_) ledger_->wait_for_goodbyes(kGoodbyeTimeout);
      wait_for_clients(ledger_ ? kLastAnswerTimeout : kGoodbyeTimeout);
      log::info(fmt::format("{}: the run has ended", name_));
    } else if (wanted_ == Wanted::kSaved) {
      log::info(fmt::format("{} has to stop, and the chief has saved", name_));
    } else if (wanted_ == Wanted::kNever) {
      log::warning(fmt::format(
          "{} has to stop, and its weights are lost: this run has no directory for checkpoints, so "
          "the chief cannot save the {} updates that are in them",
          name_, shards_.applied()));
    } else if (ledger_) {
      // Requests within this time get the reason.
      ledger_->fail(*end);
      wait_for_clients(kLastAnswerTimeout);
    }
    shards_.close();
    if (ledger_) ledger_->close();
    service.stop();
    if (end) throw *end;
    if (told_to_stop()) throw stopped();
  }

 private:
  size_t workers() const { return static_cast<size_t>(start_.cluster.num_workers); }

  double now() const { return to_seconds(surroundings_.clock->now().time_since_epoch()); }

  // Nothing at a clean end.
  std::optional<Error> wait_for_end() {
    while (true) {
      if (told_to_stop() && may_stop()) return stopped();
      {
        const std::lock_guard lock(mutex_);
        if (failure_) return failure_;
        if (finished_) return std::nullopt;
      }
      if (ledger_) {
        ledger_->look();
        apply_last_round();
        if (const auto failure = ledger_->failure()) return failure;
        if (ledger_->finished()) return std::nullopt;
      }
      plan::this_activity().set_step(shards_.applied());
      if (const auto late = chief_is_gone()) return late;
      surroundings_.clock->sleep_for(from_seconds(surroundings_.look));
    }
  }

  // What people see of this server, as means since they looked last.
  plan::Measures measures() {
    const net::Traffic traffic = net::traffic();
    const int64_t updates = shards_.applied();
    const double at = now(), seconds = std::max(1e-3, at - seen_.at);
    const auto rate = [&](int64_t count, int64_t before) {
      return static_cast<double>(std::max<int64_t>(0, count - before)) / seconds;
    };
    plan::Measures all{{"updates/s", rate(updates, seen_.updates)},
                       {"received MB/s", rate(traffic.received, seen_.traffic.received) * 1e-6},
                       {"sent MB/s", rate(traffic.sent, seen_.traffic.sent) * 1e-6}};
    seen_ = {.at = at, .updates = updates, .traffic = traffic};
    const std::lock_guard lock(mutex_);
    all["connections"] = connections_;
    return all;
  }

  bool told_to_stop() const { return start_.cancelled && start_.cancelled(); }

  Error stopped() const {
    return Error(ErrorKind::kCancelled, fmt::format("{} was asked to stop", name_),
                 wanted_ == Wanted::kNever
                     ? "give the run a model_dir for checkpoints; without them the same command "
                       "starts from the beginning"
                     : "run the same command again to continue from the last checkpoint");
  }

  // The chief saves what is here first, and goes on, unless it was told to stop as well.
  bool may_stop() {
    if (told_at_ == 0) told_at_ = now();
    const ShardServer::Place here = shards_.place();
    // A run that has begun again counts its steps anew.
    if (!to_save_ || to_save_->generation != here.generation) to_save_ = here;
    {
      const std::lock_guard lock(mutex_);
      if (chief_connections_ == 0 || now() - told_at_ > kStopGraceSeconds) return true;
    }
    if (now() - asked_at_ < kAskForSaveEvery) return false;
    asked_at_ = now();
    const auto told =
        ask_first(here.generation, ledger::WantSave{to_save_->applied}, {}, kAskForSaveTimeout);
    if (told) {
      wanted_ = told->state;
    } else {
      log::debug(fmt::format("{}: the chief may not hear that it has to stop", name_));
    }
    return wanted_ != Wanted::kWaits;
  }

  std::optional<Error> chief_is_gone() {
    const std::lock_guard lock(mutex_);
    chief_.forgive(plan::standstill(&last_look_, now(), options_.heartbeat_timeout.count() / 2),
                   now());
    if (chief_connections_ > 0) return std::nullopt;
    const double gone = now() - chief_.heard;
    const double limit = chief_came_ ? options_.restart_timeout.count() : start_.join_timeout;
    if (gone < limit) return std::nullopt;
    const std::string chief = plan::readable_task(start_.cluster.workers.front().name());
    return chief_came_
               ? Error(ErrorKind::kPeerLost,
                       fmt::format("{} was lost, and did not come back in {:.0f} s", chief, gone),
                       "start it again in time, or raise "
                       "ParameterServerOptions::restart_timeout")
               : Error(ErrorKind::kTimeout,
                       fmt::format("{} did not come to {} in {:.0f} s", chief, name_, gone),
                       "start all tasks of TF_CONFIG, or raise "
                       "RunConfig.join_timeout");
  }

  void wait_for_clients(double seconds) {
    const double deadline = now() + seconds;
    while (now() < deadline) {
      {
        const std::lock_guard lock(mutex_);
        if (connections_ == 0) return;
      }
      surroundings_.clock->sleep_for(from_seconds(surroundings_.look));
    }
  }

  void serve(net::MessageSocket& socket) {
    std::optional<net::Handshake> peer;
    try {
      peer = welcome(socket);
    } catch (const Error& error) {
      refuse(socket, error);
      return;
    }
    if (!peer) return;
    using net::Purpose;
    const bool of_shards = peer->purpose == Purpose::kSaves || peer->purpose == Purpose::kData ||
                           peer->purpose == Purpose::kRows;
    note_connection(*peer, +1);
    ShardServer::Client client{
        .socket = socket, .rank = peer->rank, .is_newest = [&] { return is_newest(*peer); }};
    try {
      while (true) {
        of_shards ? answer<shards::Request>(*peer, client) : answer<ledger::Request>(*peer, client);
      }
    } catch (const Error& error) {
      log::debug(fmt::format("{}: the connection of {} has ended: {}", name_, peer->task,
                             error.message()));
    }
    try {
      if (peer->rank >= 0 && peer->purpose == Purpose::kData && is_newest(*peer))
        shards_.worker_left(peer->rank);
    } catch (const std::exception& error) {
      log::warning(
          fmt::format("{}: the last step of {} failed: {}", name_, peer->task, error.what()));
    }
    // A process that dies loses all of its connections.
    if (note_connection(*peer, -1) == 0 && peer->rank >= 0 && ledger_)
      ledger_->leave(peer->rank, peer->incarnation);
  }

  // A connecting task must be of the same cluster, with the same options. Throws InvalidArgument.
  std::optional<net::Handshake> welcome(net::MessageSocket& socket) const {
    auto peer = receive_message<net::Handshake>(socket, options_.idle_timeout.count());
    if (!peer) return std::nullopt;
    check_handshake(*peer, start_.cluster, options_);
    if (peer->rank < -1 || peer->rank >= start_.cluster.num_workers) {
      throw invalid_argument(fmt::format("{} says that it is worker {} of {}", peer->task,
                                         peer->rank, start_.cluster.num_workers),
                             "give every task the same cluster in TF_CONFIG");
    }
    send_answer(socket, net::Welcome());
    return peer;
  }

  // Receives one request, and answers it.
  template <typename Request>
  void answer(const net::Handshake& peer, ShardServer::Client& client) {
    const auto request = receive_message<Request>(client.socket, kRequestTimeout);
    if (!request) return;
    answer_or_error(client.socket, [&] { answer(peer, client, *request); });
  }

  void answer(const net::Handshake& peer, ShardServer::Client& client,
              const shards::Request& request) {
    if (const auto* end = std::get_if<shards::Finish>(&request.operation)) {
      finish(*end);
      return send_answer(client.socket, Done());
    }
    shards_.answer(client, request);
    const auto* push = std::get_if<shards::Push>(&request.operation);
    if (push == nullptr) return;
    shards::Pushed pushed;
    if (push->commit) pushed.committed = ask_ledger(asker(peer, request.generation), *push->commit);
    send_answer(client.socket, pushed);
  }

  void answer(const net::Handshake& peer, ShardServer::Client& client,
              const ledger::Request& request) {
    std::visit(
        [&](const auto& asked) {
          send_answer(client.socket, ask_ledger(asker(peer, request.generation), asked));
        },
        request.operation);
  }

  static LedgerHost::Asker asker(const net::Handshake& peer, int64_t generation) {
    return {.rank = peer.rank, .incarnation = peer.incarnation, .generation = generation};
  }

  template <typename Operation>
  net::AnswerTo<Operation> ask_ledger(const LedgerHost::Asker& who, const Operation& asked) {
    if (!ledger_) {
      throw invalid_argument(fmt::format("{} keeps no ledger", name_),
                             "the first parameter server does");
    }
    auto told = ledger_->answer(who, asked);
    apply_last_round();
    if constexpr (std::same_as<Operation, ledger::Commit>) {
      if (told.state == StepLedger::Commit::State::kAccepted) note_accepted(who, asked, told);
    } else if constexpr (std::same_as<Operation, ledger::Resolve>) {
      if (options_.replicas_to_aggregate == 0) told.factors = shards_.factors();
    }
    return told;
  }

  // Here the step counts and is made at once; the others hear of it from the worker.
  void note_accepted(const LedgerHost::Asker& who, const ledger::Commit& commit,
                     ledger::Committed& told) {
    if (options_.replicas_to_aggregate == 0) {
      told.factors = shards_.apply(who.rank, commit.ticket);
      // Where a cut was sooner to make it.
      if (told.factors.empty()) told.factors = shards_.factors();
    }
    if (auto rates = shards_.learning_rates(); !rates.empty()) told.rates = std::move(rates);
  }

  void apply_last_round() {
    if (options_.replicas_to_aggregate == 0) return;
    if (const auto last = ledger_->last_round()) shards_.apply_round(*last);
  }

  void finish(const shards::Finish& end) {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    if (end.error) failure_ = end.error;
  }

  // Whether the worker has not come again meanwhile.
  bool is_newest(const net::Handshake& peer) {
    const std::lock_guard lock(mutex_);
    return newest_[peer.rank] == peer.incarnation;
  }

  // How many connections the process has then.
  int note_connection(const net::Handshake& peer, int change) {
    const std::lock_guard lock(mutex_);
    connections_ += change;
    const std::pair process(peer.rank, peer.incarnation);
    const int left = per_process_[process] += change;
    if (left == 0) per_process_.erase(process);
    // One that stood still connects again to say that it lives, or to save, and may have a
    // successor by now.
    if (change > 0 && peer.purpose != net::Purpose::kBeat && peer.purpose != net::Purpose::kSaves)
      newest_[peer.rank] = peer.incarnation;
    if (peer.rank != 0) return left;
    chief_connections_ += change;
    chief_came_ = true;
    chief_.heard = now();
    return left;
  }

  // Without the ledger the run begins again from a checkpoint.
  std::optional<ledger::Resolved> resolve(int64_t generation, const ledger::Resolve& asked) {
    return ask_first(generation, asked, start_.cancelled, kResolveTimeout);
  }

  // Asks the ledger, here or at the first server. Nothing if it is not reached.
  template <typename Operation>
  std::optional<net::AnswerTo<Operation>> ask_first(int64_t generation, const Operation& asked,
                                                    const std::function<bool()>& cancelled,
                                                    double timeout_seconds) {
    try {
      if (ledger_) return ledger_->answer({.generation = generation}, asked);
      const auto socket = surroundings_.connect({.address = start_.cluster.ps_addresses.front(),
                                                 .job = start_.cluster.job,
                                                 .task = start_.cluster.task.name(),
                                                 .timeout_seconds = timeout_seconds,
                                                 .cancelled = cancelled});
      send_message(*socket, handshake_of(start_.cluster, options_, /*rank=*/-1, /*incarnation=*/0,
                                         net::Purpose::kLedger));
      if (!receive_answer<net::Welcome>(*socket, timeout_seconds)) return std::nullopt;
      send_message(*socket, ledger::Request{.generation = generation, .operation = asked});
      return receive_answer<net::AnswerTo<Operation>>(*socket, timeout_seconds);
    } catch (const Error& error) {
      log::debug(fmt::format("{}: the ledger was not reached: {}", name_, error.message()));
      return std::nullopt;
    }
  }

  const StartOptions& start_;
  const ParameterServerOptions& options_;
  const Surroundings& surroundings_;
  const std::string name_;
  std::mutex mutex_;
  std::optional<Error> failure_;
  bool finished_ = false;
  int connections_ = 0;
  std::map<int, uint64_t> newest_;                       // incarnation, by rank
  std::map<std::pair<int, uint64_t>, int> per_process_;  // connections, by rank and incarnation
  int chief_connections_ = 0;
  bool chief_came_ = false;
  plan::Pulse chief_{};
  double last_look_ = now();
  double told_at_ = 0;                         // to stop
  double asked_at_ = 0;                        // the chief to save, since it was told
  std::optional<ShardServer::Place> to_save_;  // what was here then
  Wanted wanted_ = Wanted::kWaits;             // what has become of it
  // Of the last measures().
  struct Seen {
    double at = 0;
    int64_t updates = 0;
    net::Traffic traffic{};
  } seen_{.at = now()};
  std::unique_ptr<LedgerHost> ledger_;  // on the first server
  ShardServer shards_;
};

}  // namespace

void serve(const StartOptions& start, const ParameterServerOptions& options,
           const distribute::BuildModel& build, const Surroundings& surroundings) {
  Server(start, options, build, surroundings).run();
}

}  // namespace muster::inline v0_1::ps
