#include "muster/ps/internal/server_connections.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/process_identity.h"
#include "muster/plan/failure.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {

using net::Purpose;

namespace {

// A server may build a model, or wait for a cut, before it answers.
constexpr double kAnswerTimeout = 600;  // seconds
constexpr double kAskWhetherOver = 1;

}  // namespace

ServerConnections::ServerConnections(distribute::StartOptions start,
                                     distribute::ParameterServerOptions options,
                                     double timeout_seconds, Surroundings surroundings)
    : start_(std::move(start)),
      options_(std::move(options)),
      surroundings_(std::move(surroundings)),
      task_(plan::readable_task(start_.cluster.task.name())),
      incarnation_(new_incarnation()),
      pool_(start_.cluster.ps_addresses.size(), surroundings_),
      rows_pool_(options_.overlap ? start_.cluster.ps_addresses.size() : 1, surroundings_),
      saves_pool_(is_chief() ? start_.cluster.ps_addresses.size() : 1, surroundings_) {
  const auto check = [this] { check_failure(); };
  for (size_t server = 0; server < start_.cluster.ps_addresses.size(); ++server) {
    peers_.push_back(
        {.name = fmt::format("ps {} ({})", server, start_.cluster.ps_addresses[server]),
         .answer_timeout = kAnswerTimeout,
         .check = check,
         .cause = check,
         .surroundings = surroundings_});
  }
  // The ledger first: where the run is over, the other servers may be gone already.
  ledger_ = connect(0, Purpose::kLedger, timeout_seconds);
  for (size_t server = 0; server < start_.cluster.ps_addresses.size(); ++server)
    data_.push_back(connect_unless_over(server, Purpose::kData, timeout_seconds));
  save_sockets_.resize(data_.size());
  for (const auto& socket : data_) {
    if (socket) socket->keep_files();
  }
  for (size_t server = 0; options_.overlap && server < servers(); ++server)
    rows_.push_back(connect_unless_over(server, Purpose::kRows, timeout_seconds));
  const auto reconnect = [this](const std::function<bool()>& closing) {
    return connect(0, Purpose::kBeat, options_.heartbeat_timeout.count(), closing);
  };
  beats_.emplace(
      Heartbeats::Options{.peer = server_name(0),
                          .interval = options_.heartbeat_interval.count(),
                          .heartbeat_timeout = options_.heartbeat_timeout.count(),
                          .word = [this] { return heartbeat(); },
                          .heard = [this](std::string_view answer) { note_answer(answer); },
                          .reconnect = reconnect,
                          .surroundings = surroundings_},
      connect(0, Purpose::kBeat, timeout_seconds));
}

ServerConnections::~ServerConnections() {
  if (finished_) return;
  try {
    // The answer is not awaited.
    send_message(*ledger_, ledger::Request{.operation = ledger::Part()});
  } catch (const std::exception&) {
    // The first server is gone, and is what this task leaves for.
  }
}

std::unique_ptr<net::MessageSocket> ServerConnections::connect_unless_over(
    size_t server, Purpose purpose, double timeout_seconds) const {
  if (server == 0 || is_chief()) return connect(server, purpose, timeout_seconds);
  bool over = false;
  TimePoint next = clock().now() + from_seconds(kAskWhetherOver);
  try {
    return connect(server, purpose, timeout_seconds, [&] {
      if (clock().now() < next) return false;
      next = clock().now() + from_seconds(kAskWhetherOver);
      return over = ask_ledger(0, ledger::Status()).finished;
    });
  } catch (const Error& error) {
    if (!over) throw;
    return nullptr;
  }
}

std::unique_ptr<net::MessageSocket> ServerConnections::connect(
    size_t server, Purpose purpose, double timeout_seconds,
    const std::function<bool()>& in_vain) const {
  // A run that is asked to stop saves first.
  const bool may_stop = purpose != Purpose::kSaves;
  auto socket = connect_to(peers_[server],
                           {.address = start_.cluster.ps_addresses[server],
                            .job = start_.cluster.job,
                            .task = start_.cluster.task.name(),
                            .timeout_seconds = timeout_seconds,
                            .idle_timeout_seconds = options_.idle_timeout.count(),
                            .cancelled = in_vain},
                           may_stop ? start_.cancelled : std::function<bool()>());
  ask_peer<net::Handshake>(
      peers_[server], *socket,
      net::encode(handshake_of(start_.cluster, options_, rank(), incarnation_, purpose)));
  return socket;
}

net::MessageSocket& ServerConnections::for_saves(size_t server) {
  if (!save_sockets_[server]) {
    naming_who_is_lost(peers_[server], [&] {
      save_sockets_[server] = connect(server, Purpose::kSaves, options_.heartbeat_timeout.count());
    });
  }
  return *save_sockets_[server];
}

void ServerConnections::ask_each(size_t first, std::span<const Request> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t server = first + i;
    naming_who_is_lost(peers_[server],
                       [&] { send_head(*data_[server], requests[i].head, requests[i].tensors); });
  }
  for (size_t server = first; server < first + requests.size(); ++server)
    answer_to(
        peers_[server], *data_[server], [] {}, [](std::string_view) {});
}

shards::Looked ServerConnections::ask_for_rows(size_t server, int64_t generation,
                                               const shards::Rows& asked,
                                               std::span<const Tensor> tensors,
                                               const Receive<shards::Rows>& receive) {
  const auto& socket = options_.overlap ? rows_[server] : data_[server];
  return ask_peer<shards::Rows>(peers_[server], *socket,
                                net::encode(shards::Request{generation, asked}), tensors, receive);
}

void ServerConnections::at_all_servers_for_rows(const std::function<void(size_t server)>& work) {
  (options_.overlap ? rows_pool_ : pool_).run(work);
}

void ServerConnections::note_saved(const Saved& saved) {
  const std::lock_guard lock(mutex_);
  saved_ = saved;
}

std::string ServerConnections::heartbeat() const {
  // The servers of a run that is asked to stop serve until it has ended.
  const bool ends = ends_ || told_to_stop();
  ledger::Request beat{.operation =
                           ledger::Beat{.phase = phase_, .step = step_, .saves = saves_ || ends}};
  const std::lock_guard lock(mutex_);
  if (saved_ && !ends) {
    beat.generation = saved_->generation;
    std::get<ledger::Beat>(beat.operation).saved = saved_->commits;
  }
  return net::encode(beat);
}

void ServerConnections::report(plan::Phase phase, int64_t step) {
  phase_ = phase;
  step_ = step;
}

void ServerConnections::note_answer(std::string_view answer) {
  const auto error = net::error_in(answer);
  if (!error) {
    wanted_ = net::decode_answer<ledger::Beaten>(answer).wanted.value_or(-1);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
}

std::optional<Error> ServerConnections::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void ServerConnections::check_failure() const {
  if (const auto known = failure()) throw *known;
}

void ServerConnections::fail(const Error& error) noexcept {
  const auto tell = [](net::MessageSocket& socket, const auto& request) {
    try {
      send_message(socket, request);
      (void)socket.receive(2);
    } catch (const std::exception&) {
      // It is gone as well.
    }
  };
  try {
    tell(*ledger_, ledger::Request{.operation = ledger::Fail{task_, phase_, step_, error}});
    if (rank() != 0) return;
    for (size_t server = 1; server < servers(); ++server)
      tell(*data_[server], shards::Request{.operation = shards::Finish{error}});
  } catch (const std::exception&) {
    // Those that were not told find out by themselves.
  }
}

void ServerConnections::finish() {
  if (is_chief()) {
    // If one is gone, all return to the last checkpoint, and end then: no worker may have left.
    for (size_t server = 0; server < servers(); ++server) ask(server, 0, shards::State());
    ask_ledger(0, ledger::Finish{step_});
    for (size_t server = 1; server < servers(); ++server) {
      try {
        ask(server, 0, shards::Finish());
      } catch (const Error& error) {
        log::warning(fmt::format("the run has ended, but {} could not be notified: {}",
                                 server_name(server), error.message()));
      }
    }
  }
  try {
    finished_ = true;
    ask_ledger(0, ledger::Bye());
  } catch (const Error& error) {
    // The run is over: a server that is gone already will not be missed.
    log::debug(fmt::format("no answer to the goodbye: {}", error.message()));
  }
}

}  // namespace muster::inline v0_1::ps
