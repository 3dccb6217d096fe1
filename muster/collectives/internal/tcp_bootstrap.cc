#include "muster/collectives/internal/tcp_bootstrap.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <list>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/secret.h"
#include "muster/collectives/internal/descriptor_claim.h"
#include "muster/collectives/internal/handshake.h"
#include "muster/collectives/internal/tcp_socket.h"

namespace muster::inline v0_1::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kLanes = 2;
constexpr auto kLook = milliseconds(50);                // between calls of `check`
constexpr auto kHandshakeTimeout = milliseconds(5000);  // for a handshake with one peer
constexpr size_t kUnauthenticated = 16;    // that may be in a handshake in addition to the peers
constexpr size_t kAccepts = 32;            // in a turn, before the accepted peers are served
constexpr auto kPause = milliseconds(20);  // before a side that was dropped connects again

// A handshake that is under way.
struct Meeting {
  Handshake handshake;
  steady_clock::time_point until{};  // then it is given up
};

// A lower rank that had no time for us, and when it is asked again.
struct Retry {
  int rank{};
  Lane lane;
  steady_clock::time_point at{};
};

class Bootstrap {
 public:
  explicit Bootstrap(const TcpGroupOptions& options)
      : options_(options),
        deadline_(steady_clock::now() + options.timeout),
        claim_(kLanes * (options.size - 1) + static_cast<int64_t>(kUnauthenticated) + 1,
               fmt::format("rank {} of {} over TCP", shown(options.rank), options.size)),
        listener_(listen_tcp(options.address)),
        peers_(static_cast<size_t>(options.size)) {}

  std::vector<PeerSockets> run() {
    publish();
    for (int r = 0; r < options_.rank; ++r) {
      addresses_.push_back(fetch(fmt::format("at/{}", r), r));
      connect(r, Lane::kControl);
      connect(r, Lane::kBulk);
    }
    while (!complete()) {
      wait_for_news();
      accept_peers();
      advance(accepted_);
      advance(hosts_);
      connect_again();
      if (options_.check) options_.check();
      if (steady_clock::now() >= deadline_) throw late();
    }
    claim_.keep();
    return std::move(peers_);
  }

 private:
  int shown(int rank) const { return options_.shown(rank); }
  milliseconds remaining() const {
    return std::max(milliseconds(1),
                    std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now()));
  }

  void publish() {
    const auto key = [&](const std::string& name) { return options_.prefix + name; };
    if (options_.rank == 0) options_.store->set(key("secret"), random_secret());
    options_.store->set(key(fmt::format("at/{}", options_.rank)), listener_.address);
    secret_ = fetch("secret", 0);
  }

  // The value that rank `from` leaves in the store.
  std::string fetch(const std::string& name, int from) {
    try {
      return options_.store->get(options_.prefix + name, remaining());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      throw error.with_context(fmt::format("rank {} did not appear within {} ms", shown(from),
                                           options_.timeout.count()));
    }
  }

  void connect(int rank, Lane lane) {
    try {
      hosts_.push_back(
          {.handshake = Handshake(start_connect_tcp(addresses_[static_cast<size_t>(rank)]), secret_,
                                  options_.rank, rank, lane),
           .until = deadline_});
    } catch (const Error& error) {
      throw unreachable(rank, error.message());
    }
  }

  Error unreachable(int rank, const std::string& why) const {
    return Error(
        ErrorKind::kPeerLost,
        fmt::format("rank {} could not connect to rank {} at {}: {}", shown(options_.rank),
                    shown(rank), addresses_[static_cast<size_t>(rank)], why),
        "see the output of that task for why it ended, and check that the tasks can reach each "
        "other at the addresses of the cluster description");
  }

  FileDescriptor& socket_of(int rank, Lane lane) {
    PeerSockets& sockets = peers_[static_cast<size_t>(rank)];
    return lane == Lane::kControl ? sockets.control : sockets.bulk;
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int r = 0; r < options_.size; ++r) {
      const PeerSockets& sockets = peers_[static_cast<size_t>(r)];
      if (r != options_.rank && !(sockets.control.is_open() && sockets.bulk.is_open()))
        ranks.push_back(r);
    }
    return ranks;
  }
  bool complete() const { return missing().empty(); }

  void wait_for_news() {
    std::vector<pollfd> entries = {{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0}};
    for (const auto* meetings : {&accepted_, &hosts_}) {
      for (const Meeting& meeting : *meetings) {
        const short events = meeting.handshake.connecting() ? POLLOUT : POLLIN;
        entries.push_back({.fd = meeting.handshake.socket().get(), .events = events, .revents = 0});
      }
    }
    const milliseconds most = retries_.empty() ? kLook : kPause;
    poll(entries.data(), entries.size(),
         static_cast<int>(std::min<milliseconds>(most, remaining()).count()));
  }

  // Accepts a few at a time: however fast unauthenticated peers connect, those already accepted are
  // served in between.
  void accept_peers() {
    const size_t room = kLanes * missing().size() + kUnauthenticated;
    for (size_t accepted = 0; accepted < std::min(kAccepts, room); ++accepted) {
      std::optional<AcceptedSocket> peer = accept_tcp(listener_.socket);
      if (!peer) return;
      if (accepted_.size() >= room) make_room();
      accepted_.push_back({.handshake = Handshake(std::move(peer->socket), secret_, options_.rank,
                                                  std::move(peer->host)),
                           .until = steady_clock::now() + kHandshakeTimeout});
      // Its hello is often there already, and keeps its place.
      accepted_.back().handshake.advance();
    }
  }

  // Drops the oldest peer that has sent no hello; if all have, the oldest.
  void make_room() {
    const auto silent = std::ranges::find_if(
        accepted_, [](const Meeting& peer) { return !peer.handshake.has_answered(); });
    accepted_.erase(silent == accepted_.end() ? accepted_.begin() : silent);
  }

  void connect_again() {
    const auto now = steady_clock::now();
    for (const Retry& retry : std::exchange(retries_, {})) {
      if (retry.at <= now) {
        connect(retry.rank, retry.lane);
      } else {
        retries_.push_back(retry);
      }
    }
  }

  // Brings the handshakes forward and takes those out that have ended.
  void advance(std::list<Meeting>& meetings) {
    for (auto meeting = meetings.begin(); meeting != meetings.end();) {
      Handshake& handshake = meeting->handshake;
      const Handshake::State state = handshake.advance();
      if (state == Handshake::State::kRunning && steady_clock::now() < meeting->until) {
        ++meeting;
        continue;
      }
      Handshake ended = std::move(handshake);
      meeting = meetings.erase(meeting);
      if (state == Handshake::State::kDone) {
        admit(std::move(ended));
      } else {
        give_up(ended, /*accepted=*/&meetings == &accepted_);
      }
    }
  }

  void admit(Handshake handshake) {
    const int rank = handshake.peer_rank();
    if (rank < 0 || rank >= options_.size || rank == options_.rank) return;
    FileDescriptor& socket = socket_of(rank, handshake.lane());
    // A peer that was given up while it was slow comes again.
    socket = handshake.take_socket();
  }

  void give_up(const Handshake& handshake, bool accepted) {
    if (accepted) {
      if (handshake.is_unauthenticated()) {
        log::warning_once(
            fmt::format("refused a connection from {}: {}", handshake.host(), handshake.reason()));
      }
      return;
    }
    const int rank = handshake.peer_rank();
    // The other side had no time for this one. It is asked again, but not at once: it has too many
    // accepted already.
    const auto now = steady_clock::now();
    if (handshake.was_dropped() && now < deadline_) {
      retries_.push_back({.rank = rank, .lane = handshake.lane(), .at = now + kPause});
      return;
    }
    if (!handshake.reason().empty()) throw unreachable(rank, handshake.reason());
  }

  Error late() const {
    std::vector<int> ranks = missing();
    for (int& rank : ranks) rank = shown(rank);
    return Error(ErrorKind::kTimeout,
                 fmt::format("rank {} did not appear within {} ms; rank {} of {} waits at {}",
                             fmt::join(ranks, ", rank "), options_.timeout.count(),
                             shown(options_.rank), options_.size, listener_.address),
                 "see what those tasks do, and check that the tasks can reach each other at the "
                 "addresses of the cluster description");
  }

  const TcpGroupOptions& options_;
  const steady_clock::time_point deadline_;
  DescriptorClaim claim_;
  const TcpListener listener_;
  std::vector<PeerSockets> peers_;
  std::string secret_;
  std::vector<std::string> addresses_;  // of lower ranks
  std::list<Meeting> accepted_;         // with the peers that connected
  std::list<Meeting> hosts_;            // with lower ranks
  std::vector<Retry> retries_;          // of the dropped connections
};

}  // namespace

std::vector<PeerSockets> connect_tcp_group(const TcpGroupOptions& options) {
  return Bootstrap(options).run();
}

}  // namespace muster::inline v0_1::internal
