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

using nlohmann::json;

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
  ledger_ = connect(0, "ledger", timeout_seconds);
  for (size_t server = 0; server < start_.cluster.ps_addresses.size(); ++server)
    data_.push_back(connect_unless_over(server, "data", timeout_seconds));
  for (const auto& socket : data_) {
    if (socket) socket->keep_files();
  }
  for (size_t server = 0; options_.overlap && server < servers(); ++server)
    rows_.push_back(connect_unless_over(server, "rows", timeout_seconds));
  beats_ = connect(0, "beat", timeout_seconds);
  beater_ = std::thread([this] { beat_until_closed(); });
}

ServerConnections::~ServerConnections() {
  if (!finished_) {
    try {
      // Nobody waits for the answer.
      send_message(*ledger_, of_this_process({{"op", "part"}}));
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

json ServerConnections::of_this_process(json request) const {
  request["rank"] = rank();
  request["incarnation"] = incarnation_;
  return request;
}

std::string ServerConnections::server_name(size_t server) const {
  return fmt::format("ps {} ({})", server, start_.cluster.ps_addresses[server]);
}

std::unique_ptr<net::MessageSocket> ServerConnections::connect_unless_over(
    size_t server, const char* purpose, double timeout_seconds) const {
  if (server == 0 || is_chief()) return connect(server, purpose, timeout_seconds);
  bool over = false;
  TimePoint next = system_clock().now() + from_seconds(kLook);
  try {
    return connect(server, purpose, timeout_seconds, [&] {
      if (system_clock().now() < next) return false;
      next = system_clock().now() + from_seconds(kLook);
      const json status =
          exchange(*ledger_, server_name(0), of_this_process({{"op", "status"}}), {}, {});
      return over = status.contains("finished");
    });
  } catch (const Error& error) {
    if (!over) throw;
    return nullptr;
  }
}

std::unique_ptr<net::MessageSocket> ServerConnections::connect(
    size_t server, const char* purpose, double timeout_seconds,
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
  exchange(*socket, name, handshake_of(start_.cluster, options_, rank(), incarnation_, purpose), {},
           {});
  return socket;
}

json ServerConnections::wait_for_answer(net::MessageSocket& socket,
                                        const std::string& server) const {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(kLongestAnswer);
  try {
    while (std::chrono::steady_clock::now() < deadline) {
      auto answer = receive_head(socket, kLook);
      if (!answer) {
        check_failure();
        continue;
      }
      return *std::move(answer);
    }
  } catch (const Error&) {
    check_failure();
    throw;
  }
  throw Error(ErrorKind::kPeerLost,
              fmt::format("{} has not answered for {:.0f} s", server, kLongestAnswer));
}

json ServerConnections::exchange(
    net::MessageSocket& socket, const std::string& server, const json& request,
    std::span<const Tensor> tensors,
    const std::function<void(net::MessageSocket&, const json&)>& receive) const {
  return answer_to(
      socket, server, [&] { send_message(socket, request, tensors); }, receive);
}

void ServerConnections::naming_who_is_lost(const std::string& server,
                                           const std::function<void()>& work) const {
  try {
    work();
  } catch (const Error& error) {
    check_failure();
    if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
    throw Error(ErrorKind::kPeerLost, fmt::format("{} was lost: {}", server, error.message()),
                error.hint());
  }
}

json ServerConnections::answer_to(
    net::MessageSocket& socket, const std::string& server, const std::function<void()>& send,
    const std::function<void(net::MessageSocket&, const json&)>& receive) const {
  json answer;
  naming_who_is_lost(server, [&] {
    send();
    answer = wait_for_answer(socket, server);
    if (receive && !answer.contains("error")) receive(socket, answer);
    if (socket.payload_left() > 0) socket.skip_payload();
  });
  if (answer.contains("error")) throw to_error(answer.at("error"));
  return answer;
}

json ServerConnections::ask(size_t server, const json& request, std::span<const Tensor> tensors,
                            const std::function<void(net::MessageSocket&, const json&)>& receive) {
  return exchange(*data_[server], server_name(server), request, tensors, receive);
}

void ServerConnections::ask_each(size_t first, std::span<const Request> requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t server = first + i;
    naming_who_is_lost(server_name(server), [&] {
      send_message(*data_[server], requests[i].head, requests[i].tensors);
    });
  }
  for (size_t server = first; server < first + requests.size(); ++server)
    answer_to(*data_[server], server_name(server), [] {}, {});
}

json ServerConnections::ask_for_rows(size_t server, const json& request,
                                     std::span<const Tensor> tensors, const Receive& receive) {
  const auto& socket = options_.overlap ? rows_[server] : data_[server];
  return exchange(*socket, server_name(server), request, tensors, receive);
}

void ServerConnections::at_all_servers_for_rows(const std::function<void(size_t server)>& work) {
  (options_.overlap ? rows_pool_ : pool_).run(work);
}

json ServerConnections::receive_more(
    size_t server, const std::function<void(net::MessageSocket&, const json& head)>& receive) {
  return answer_to(
      *data_[server], server_name(server), [] {}, receive);
}

json ServerConnections::ask_ledger(json request) {
  return exchange(*ledger_, server_name(0), of_this_process(std::move(request)), {}, {});
}

void ServerConnections::report(plan::Phase phase, int64_t step) {
  phase_ = static_cast<int>(phase);
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
      auto again = connect(0, "beat", options_.heartbeat_timeout_seconds);
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
    send_message(*beats_, of_this_process(
                              {{"op", "beat"}, {"phase", phase_.load()}, {"step", step_.load()}}));
    const auto answer = receive_head(*beats_, options_.heartbeat_timeout_seconds);
    if (answer && answer->contains("error")) failure = to_error(answer->at("error"));
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
  const auto told = [&](net::MessageSocket& socket, json request) {
    try {
      request["error"] = to_json(error);
      send_message(socket, request);
      (void)receive_head(socket, 2);
    } catch (const std::exception&) {
      // It is gone as well.
    }
  };
  try {
    told(*ledger_, {{"op", "fail"},
                    {"task", task_},
                    {"rank", rank()},
                    {"phase", phase_.load()},
                    {"step", step_.load()}});
    if (rank() != 0) return;
    for (size_t server = 1; server < servers(); ++server) told(*data_[server], {{"op", "finish"}});
  } catch (const std::exception&) {
    // Those that were not told find out by themselves.
  }
}

void ServerConnections::finish() {
  if (is_chief()) {
    // Where one is gone all come back to the last checkpoint, and end then: nobody may have left.
    for (size_t server = 0; server < servers(); ++server) ask(server, {{"op", "state"}});
    ask_ledger({{"op", "finish"}, {"step", step_.load()}});
    for (size_t server = 1; server < servers(); ++server) {
      try {
        ask(server, {{"op", "finish"}});
      } catch (const Error& error) {
        log::warning(fmt::format("the run is over, and {} was not told: {}", server_name(server),
                                 error.message()));
      }
    }
  }
  try {
    finished_ = true;
    ask_ledger({{"op", "bye"}});
  } catch (const Error& error) {
    // The run is over: a server that is gone already will not be missed.
    log::debug(fmt::format("no answer to the goodbye: {}", error.message()));
  }
}

}  // namespace muster::inline v0_1::ps
