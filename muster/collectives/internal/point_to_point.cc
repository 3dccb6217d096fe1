#include "muster/collectives/internal/point_to_point.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

PointToPoint::PointToPoint(const TcpGroupOptions& options)
    : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.is_open()) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("cannot make an event descriptor: {}", std::strerror(errno)));
  }
  for (PeerSockets& sockets : connect_tcp_group(options)) {
    Lanes& lanes = peers_.emplace_back();
    if (!sockets.control.is_open()) continue;
    lanes.push_back(std::make_unique<Connection>(std::move(sockets.control)));
    lanes.push_back(std::make_unique<Connection>(std::move(sockets.bulk)));
  }
}

PointToPoint::End PointToPoint::wait(const Transfer& transfer, int peer, Lane lane,
                                     steady_clock::time_point deadline) {
  Connection& waited_for = connection(peer, lane);
  // Data that has arrived already costs no poll.
  waited_for.read();
  for (;;) {
    if (transfer.done()) return End::kDone;
    if (waited_for.closed()) return End::kLost;
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds(0)) return End::kTimeout;
    if (poll_all(left)) return transfer.done() ? End::kDone : End::kWoken;
  }
}

void PointToPoint::look() {
  for (const Lanes& lanes : peers_) {
    for (const auto& connection : lanes) connection->read();
  }
}

// Waits until something can move, and moves it. True when wake() was called.
bool PointToPoint::poll_all(milliseconds timeout) {
  entries_.assign(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
  polled_.clear();
  for (const Lanes& lanes : peers_) {
    for (const auto& connection : lanes) {
      if (connection->closed()) continue;
      const int events =
          (connection->wants_to_read() ? POLLIN : 0) | (connection->wants_to_write() ? POLLOUT : 0);
      entries_.push_back(
          {.fd = connection->descriptor(), .events = static_cast<short>(events), .revents = 0});
      polled_.push_back(connection.get());
    }
  }
  constexpr int64_t kMost = 1'000'000'000;
  if (poll(entries_.data(), entries_.size(),
           static_cast<int>(std::min<int64_t>(timeout.count(), kMost))) <= 0) {
    return false;
  }
  for (size_t i = 0; i < polled_.size(); ++i) {
    const short seen = entries_[i + 1].revents;
    if ((seen & POLLOUT) != 0) polled_[i]->write();
    if ((seen & POLLIN) != 0) polled_[i]->read();
    if ((seen & (POLLHUP | POLLERR)) != 0) polled_[i]->note_hang_up();
  }
  if (entries_[0].revents == 0) return false;
  eventfd_t ignored = 0;
  eventfd_read(wake_.get(), &ignored);
  return true;
}

std::optional<std::string> PointToPoint::why_lost(int peer) const {
  for (const auto& connection : peers_[static_cast<size_t>(peer)]) {
    if (connection->closed()) return connection->closed();
  }
  return std::nullopt;
}

void PointToPoint::wake() { eventfd_write(wake_.get(), 1); }

}  // namespace muster::inline v0_1::internal
