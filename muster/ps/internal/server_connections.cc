#include "muster/ps/internal/server_connections.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/plan/failure.h"
#include "muster/ps/internal/incarnation.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {

using net::Purpose;

namespace {

// A server may build a model, or wait for a cut, before it answers.
constexpr double kLongestAnswer = 600;
constexpr double kLook = 1;
constexpr double kTellOfServerEvery = 10;  // while a server is not there

}  // namespace

ServerConnections::ServerConnections(distribute::StartOptions start,
                                     distribute::ParameterServerOptions options,
                                     double timeout_seconds)
    : start_(std::move(start)),
      options_(std::move(options)),
      task_(plan::readable_task(start_.cluster.task.name())),
      incarnation_(new_incarnation()),
      pool_(start_.cluster.ps_addresses.size()),
      rows_pool_(options_.overlap ? start_.cluster.ps_addresses.size() : 1) {
  // The ledger first: where the run is over, the other servers may be gone already.
  ledger_ = connect(0, Purpose::kLedger, timeout_seconds);
  for (size_t server = 0; server < start_.cluster.ps_addresses.size(); ++server)
    data_.push_back(connect_unless_over(server, Purpose::kData, timeout_seconds));
  for (const auto& socket : data_) {
    if (socket) socket->keep_files();
  }
  for (size_t server = 0; options_.overlap && server < servers(); ++server)
    rows_.push_back(connect_unless_over(server, Purpose::kRows, timeout_seconds));
  beats_ = connect(0, Purpose::kBeat, timeout_seconds);
  beater_ = std::thread([this] { beat_until_closed(); });
}

ServerConnections::~ServerConnections() {
  if (!finished_) {
    try {
      // Nobody waits for the answer.
      send_message(*ledger_, ledger::Request{.operation = ledger::Part()});
    } catch (const std::exception&) {
      // The first server is gone, and is what this task leaves for.
    }
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    beats_->close();
  }
  closed_.notify_all();
  beater_.join();
}

bool ServerConnections::is_closing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

std::string ServerConnections::server_name(size_t server) const {
  return fmt::format("ps {} ({})", server, start_.cluster.ps_addresses[server]);
}

std::unique_ptr<net::MessageSocket> ServerConnections::connect_unless_over(
    size_t server, Purpose purpose, double timeout_seconds) const {
  if (server == 0 || is_chief()) return connect(server, purpose, timeout_seconds);
  bool over = false;
  TimePoint next = system_clock().now() + from_seconds(kLook);
  try {
    return connect(server, purpose, timeout_seconds, [&] {
      if (system_clock().now() < next) return false;
      next = system_clock().now() + from_seconds(kLook);
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
  const std::string name = server_name(server);
  TimePoint told = system_clock().now() - from_seconds(kTellOfServerEvery / 2);
  const auto cancelled = [&] {
    const TimePoint now = system_clock().now();
    if (to_seconds(now - told) >= kTellOfServerEvery) {
      told = now;
      log::info("waiting for " + name);
    }
    return is_closing() || (start_.cancelled && start_.cancelled()) || (in_vain && in_vain());
  };
  const auto dial = [&] {
    return net::connect_messages({.address = start_.cluster.ps_addresses[server],
                                  .job = start_.cluster.job,
                                  .task = start_.cluster.task.name(),
                                  .timeout_seconds = timeout_seconds,
                                  .idle_timeout_seconds = options_.idle_timeout_seconds,
                                  .cancelled = cancelled});
  };
  auto socket = unless_told_to_stop(dial, start_.cancelled, name);
  exchange<net::Handshake>(
      *socket, server,
      net::encode(handshake_of(start_.cluster, options_, rank(), incarnation_, purpose)));
  return socket;
}

void ServerConnections::send(net::MessageSocket& socket, const std::string& request,
                             std::span<const Tensor> tensors) {
  send_head(socket, request, tensors);
}

std::string ServerConnections::wait_for_answer(net::MessageSocket& socket, size_t server) const {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(kLongestAnswer);
  try {
    while (std::chrono::steady_clock::now() < deadline) {
      if (auto answer = socket.receive(kLook)) return std::move(answer->text);
      check_failure();
    }
  } catch (const Error&) {
    check_failure();
    throw;
  }
  throw Error(ErrorKind::kPeerLost,
              fmt::format("{} has not answered for {:.0f} s", server_name(server), kLongestAnswer));
}

void ServerConnections::naming_who_is_lost(size_t server, const std::function<void()>& work) const {
  try {
    work();
  } catch (const Error& error) {
    check_failure();
    if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
    throw Error(ErrorKind::kPeerLost,
                fmt::format("{} was lost: {}", server_name(server), error.message()), error.hint());
  }
}

void ServerConnections::answer_to(
    net::MessageSocket& socket, size_t server, const std::function<void()>& send,
    const std::function<void(net::MessageSocket&, std::string_view)>& take) const {
  std::optional<Error> refusal;
  naming_who_is_lost(server, [&] {
    send();
    const std::string answer = wait_for_answer(socket, server);
    refusal = net::error_in(answer);
    if (!refusal) take(socket, answer);
    if (socket.payload_left() > 0) socket.skip_payload();
  });
  if (refusal) throw *refusal;
}

void ServerConnections::ask_each(size_t first, std::span<const Request> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t server = first + i;
    naming_who_is_lost(server,
                       [&] { send_head(*data_[server], requests[i].head, requests[i].tensors); });
  }
  for (size_t server = first; server < first + requests.size(); ++server)
    answer_to(
        *data_[server], server, [] {}, [](net::MessageSocket&, std::string_view) {});
}

shards::Looked ServerConnections::ask_for_rows(size_t server, int64_t generation,
                                               const shards::Rows& asked,
                                               std::span<const Tensor> tensors,
                                               const Receive<shards::Rows>& receive) {
  const auto& socket = options_.overlap ? rows_[server] : data_[server];
  return exchange<shards::Rows>(*socket, server, net::encode(shards::Request{generation, asked}),
                                tensors, receive);
}

void ServerConnections::at_all_servers_for_rows(const std::function<void(size_t server)>& work) {
  (options_.overlap ? rows_pool_ : pool_).run(work);
}

void ServerConnections::report(plan::Phase phase, int64_t step) {
  phase_ = phase;
  step_ = step;
}

void ServerConnections::beat_until_closed() {
  while (true) {
    try {
      beat();
      return;
    } catch (const Error& error) {
      if (is_closing()) return;
      log::debug(fmt::format("no heartbeat reaches {}: {}", server_name(0), error.message()));
    }
    try {
      // Where it was the connection alone that ended, the run needs not know. Whoever asks a server
      // that is gone finds out by itself.
      auto again = connect(0, Purpose::kBeat, options_.heartbeat_timeout_seconds);
      const std::lock_guard lock(mutex_);
      beats_ = std::move(again);
    } catch (const Error&) {
      return;
    }
  }
}

void ServerConnections::beat() {
  std::unique_lock lock(mutex_);
  while (!closing_ && !failure_) {
    lock.unlock();
    std::optional<Error> failure;
    send_message(*beats_, ledger::Request{.operation = ledger::Beat{phase_, step_}});
    if (const auto answer = beats_->receive(options_.heartbeat_timeout_seconds))
      failure = net::error_in(answer->text);
    lock.lock();
    failure_ = failure;
    closed_.wait_for(lock, std::chrono::duration<double>(options_.heartbeat_seconds),
                     [&] { return closing_; });
  }
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
    // Where one is gone all come back to the last checkpoint, and end then: nobody may have left.
    for (size_t server = 0; server < servers(); ++server) ask(server, 0, shards::State());
    ask_ledger(0, ledger::Finish{step_});
    for (size_t server = 1; server < servers(); ++server) {
      try {
        ask(server, 0, shards::Finish());
      } catch (const Error& error) {
        log::warning(fmt::format("the run is over, and {} was not told: {}", server_name(server),
                                 error.message()));
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
