#include "muster/ps/internal/peer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::ps {
namespace {

constexpr double kLook = 1;
constexpr double kTellOfPeerEvery = 10;  // while it does not answer

std::string wait_for_answer(const Peer& peer, net::MessageSocket& socket) {
  Clock& clock = *peer.surroundings.clock;
  const TimePoint deadline = clock.now() + from_seconds(peer.answer_timeout);
  while (clock.now() < deadline) {
    if (auto answer = socket.receive(kLook)) return std::move(answer->text);
    if (peer.check) peer.check();
  }
  throw Error(ErrorKind::kPeerLost,
              fmt::format("it has not answered for {:.0f} s", peer.answer_timeout));
}

}  // namespace

std::unique_ptr<net::MessageSocket> connect_to(const Peer& peer, net::ConnectOptions options,
                                               const std::function<bool()>& told_to_stop) {
  Clock& clock = *peer.surroundings.clock;
  TimePoint told = clock.now() - from_seconds(kTellOfPeerEvery / 2);
  options.cancelled = [&, in_vain = options.cancelled] {
    const TimePoint now = clock.now();
    if (to_seconds(now - told) >= kTellOfPeerEvery) {
      told = now;
      log::info("waiting for " + peer.name);
    }
    return (told_to_stop && told_to_stop()) || (in_vain && in_vain());
  };
  try {
    return peer.surroundings.connect(options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCancelled || !told_to_stop || !told_to_stop()) throw;
    throw Error(ErrorKind::kCancelled, "asked to stop while it waited for " + peer.name,
                "run the same command again to continue from the last checkpoint");
  }
}

void naming_who_is_lost(const Peer& peer, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    if (peer.cause) peer.cause();
    if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
    // The connection says "lost ps 0" itself.
    const std::string& why = error.message();
    const std::string lost = "lost " + peer.name;
    throw Error(ErrorKind::kPeerLost,
                fmt::format("{} was lost{}", peer.name,
                            why.starts_with(lost) ? why.substr(lost.size()) : ": " + why),
                error.hint());
  }
}

void answer_to(const Peer& peer, net::MessageSocket& socket, const std::function<void()>& send,
               const std::function<void(std::string_view fields)>& take) {
  std::optional<Error> refusal;
  naming_who_is_lost(peer, [&] {
    send();
    const std::string answer = wait_for_answer(peer, socket);
    refusal = net::error_in(answer);
    if (!refusal) take(answer);
    if (socket.payload_left() > 0) socket.skip_payload();
  });
  if (refusal) throw *refusal;
}

Heartbeats::Heartbeats(Options options, std::unique_ptr<net::MessageSocket> socket)
    : options_(std::move(options)), socket_(std::move(socket)) {
  thread_.emplace(options_.surroundings, [this] { run(); });
}

Heartbeats::~Heartbeats() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    socket_->close();
  }
  closed_.notify_all();
  thread_.reset();
}

bool Heartbeats::closing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

void Heartbeats::run() {
  while (true) {
    try {
      return beat();
    } catch (const Error& error) {
      if (closing()) return;
      log::debug(fmt::format("no heartbeat reaches {}: {}", options_.peer, error.message()));
    }
    if (!options_.reconnect) return;
    try {
      auto again = options_.reconnect([this] { return closing(); });
      const std::lock_guard lock(mutex_);
      socket_ = std::move(again);
    } catch (const Error&) {
      return;
    }
  }
}

void Heartbeats::beat() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    lock.unlock();
    send_head(*socket_, options_.word());
    const auto answer = socket_->receive(options_.heartbeat_timeout);
    if (answer && options_.heard) options_.heard(answer->text);
    lock.lock();
    options_.surroundings.clock->wait_for(lock, closed_, from_seconds(options_.interval),
                                          [this] { return closing_; });
  }
}

}  // namespace muster::inline v0_1::ps
