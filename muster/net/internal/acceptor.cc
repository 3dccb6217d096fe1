#include "muster/net/internal/acceptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/unix_name.h"
#include "muster/net/internal/frame.h"
#include "muster/net/internal/local_socket.h"

namespace muster::inline v0_1::net {
namespace {

// What an event is about; the others are ids of connections.
constexpr uint64_t kWake = 0;
constexpr uint64_t kListener = 1;
constexpr uint64_t kFirstConnection = 2;

// What a connection without TLS begins with where gRPC or a browser speaks HTTP/2: RFC 9113,
// section 3.4.
constexpr std::string_view kHttp2Opening = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// What a connection speaks, after its first bytes. kOurs is what the server speaks without TLS.
enum class Speech { kNotKnownYet, kTls, kOurs, kHttp1, kHttp2, kOther };

Speech speech_of(std::string_view first) {
  constexpr char kHandshake = 0x16;  // of TLS: RFC 8446, section 5.1
  if (first.empty()) return Speech::kNotKnownYet;
  if (first[0] == kHandshake) return Speech::kTls;
  if (first.starts_with(kFrameMagic)) return Speech::kOurs;
  if (kFrameMagic.starts_with(first)) return Speech::kNotKnownYet;
  if (kHttp2Opening.starts_with(first)) return Speech::kHttp2;
  constexpr size_t kLongestMethod = 8;
  for (const char c : first.substr(0, kLongestMethod)) {
    if (c == ' ') return Speech::kHttp1;
    if (c < 'A' || c > 'Z') break;
  }
  return Speech::kOther;
}

// Why a connection that speaks so is closed; nothing where it may go on.
std::string objection(Speech speech, bool tls, const std::string& host) {
  switch (speech) {
    case Speech::kTls:
      if (tls) return {};
      return fmt::format(
          "refused a connection from {}: it speaks TLS, and this task has no certificates; set "
          "MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA for all tasks of the job or for none",
          host);
    case Speech::kOurs:
      if (!tls) return {};
      return fmt::format(
          "refused a connection from {}: it does not speak TLS, and this job has certificates; set "
          "MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA for all tasks of the job",
          host);
    case Speech::kHttp1:
      return fmt::format(
          "refused a connection from {}: it speaks HTTP/1, as a browser or a health check does",
          host);
    case Speech::kHttp2:
      return fmt::format(
          "refused a connection from {}: it speaks HTTP/2, as a task with a Muster older than 0.2 "
          "does",
          host);
    default:
      return fmt::format("refused a connection from {}: its message is not from a task", host);
  }
}

// Bytes that have come so far.
int64_t received_bytes(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

// Answers whether that could be.
bool watch(int epoll, int fd, uint64_t id, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Acceptor::Acceptor(Listener listener, AcceptorLimits limits, std::string server, bool tls,
                   RefusalLog& log, Take take)
    : listener_(std::move(listener)),
      limits_(limits),
      server_(std::move(server)),
      tls_(tls),
      log_(log),
      take_(std::move(take)),
      next_id_(kFirstConnection) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  open_reserve();
  try {
    bool ready = epoll_ >= 0 && wake_ >= 0 && watch(epoll_, wake_, kWake, EPOLLIN);
    for (const int socket : listener_.sockets())
      ready = ready && watch(epoll_, socket, kListener, EPOLLIN);
    if (!ready) throw from_errno(errno, "cannot wait for connections");
  } catch (...) {
    for (const int fd : {epoll_, wake_, reserve_}) ::close(fd);
    throw;
  }
}

Acceptor::~Acceptor() {
  stop();
  for (const int fd : {epoll_, wake_, reserve_}) ::close(fd);
}

void Acceptor::start() {
  thread_ = std::thread([this] { run(); });
}

void Acceptor::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  listener_.close();
  const std::lock_guard lock(mutex_);
  // What was taken is closed by who took it.
  while (!connections_.empty()) forget(connections_.begin());
}

void Acceptor::run() {
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int count = ::epoll_wait(epoll_, events.data(), events.size(), wait_ms());
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id < kFirstConnection) continue;
      const Taken taken = look_at(id, events[static_cast<size_t>(i)].events);
      if (taken.fd >= 0) take_(taken.fd, taken.peer);
    }
    for (const int socket : listener_.sockets()) accept_from(socket);
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    end_late_ones();
  }
}

int Acceptor::wait_ms() {
  const std::lock_guard lock(mutex_);
  if (connections_.empty()) return -1;
  const auto left = connections_.begin()->second.deadline - std::chrono::steady_clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::max<int64_t>(0, ms));
}

void Acceptor::accept_from(int listener) {
  // Others must not wait until a flood is over.
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    const int fd = ::accept4(listener, reinterpret_cast<sockaddr*>(&address), &bytes,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      const auto peer =
          address.ss_family == AF_UNIX ? local_peer(fd) : std::optional(peer_of(address));
      if (peer) {
        admit(fd, *peer);
      } else {
        ::close(fd);
      }
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return endure_no_descriptors(listener);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    }
    // Anything else is the end of that one connection.
  }
}

std::optional<Peer> Acceptor::local_peer(int fd) {
  if (!is_same_user(fd)) {
    log_.tell("refused a connection from another user of this machine");
    return std::nullopt;
  }
  return Peer{.host = kThisMachine, .port = ++local_peers_};
}

void Acceptor::admit(int fd, const Peer& peer) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::milliseconds(static_cast<int64_t>(limits_.seconds * 1000));
  Connection connection{
      .fd = fd, .peer = peer, .neighbourhood = neighbourhood(peer), .deadline = deadline};
  ++per_place_[connection.neighbourhood];
  by_peer_[peer] = id;
  connections_.emplace(id, std::move(connection));
  // Each news comes once: bytes stay unread here.
  if (!watch(epoll_, fd, id, EPOLLIN | EPOLLRDHUP | EPOLLET))
    return drop(connections_.find(id), "");
  if (connections_.size() > limits_.connections) end_one_of_most();
}

Acceptor::Taken Acceptor::look_at(uint64_t id, uint32_t events) {
  const std::lock_guard lock(mutex_);
  const auto at = connections_.find(id);
  if (at == connections_.end()) return {};
  const Connection& connection = at->second;
  if (connection.taken && (events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0) {
    drop(at, "");
  } else if (received_bytes(connection.fd) > limits_.bytes) {
    drop(at, fmt::format("closed a connection from {}: it sent more than {} bytes before it showed "
                         "that it belongs to the job",
                         connection.peer.host, limits_.bytes));
  } else if (!connection.taken) {
    return look_at_first_bytes(at);
  }
  return {};
}

Acceptor::Taken Acceptor::look_at_first_bytes(Connections::iterator at) {
  std::array<char, 16> first{};
  const ssize_t bytes = ::recv(at->second.fd, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  const Speech speech = speech_of({first.data(), static_cast<size_t>(std::max<ssize_t>(0, bytes))});
  if (bytes > 0 && speech == Speech::kNotKnownYet) return {};
  // A peer that closes without a message only tested whether the port is open.
  const std::string why = bytes > 0 ? objection(speech, tls_, at->second.peer.host) : "";
  const int copy = bytes > 0 && why.empty() ? ::fcntl(at->second.fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (copy < 0) {
    drop(at, why);
    return {};
  }
  at->second.taken = true;
  return {.fd = copy, .peer = at->second.peer};
}

bool Acceptor::proved(const Peer& peer) {
  const std::lock_guard lock(mutex_);
  const auto id = by_peer_.find(peer);
  if (id == by_peer_.end()) return false;
  forget(connections_.find(id->second));
  return true;
}

void Acceptor::end_late_ones() {
  const auto now = std::chrono::steady_clock::now();
  while (!connections_.empty() && connections_.begin()->second.deadline <= now) {
    const auto at = connections_.begin();
    drop(at, fmt::format("closed a connection from {}: it did not show within {} s that it belongs "
                         "to the job",
                         at->second.peer.host, limits_.seconds));
  }
}

bool Acceptor::end_one_of_most() {
  const auto most =
      std::ranges::max_element(per_place_, {}, [](const auto& place) { return place.second; });
  if (most == per_place_.end()) return false;
  const auto oldest = std::ranges::find_if(
      connections_, [&](const auto& item) { return item.second.neighbourhood == most->first; });
  drop(oldest, fmt::format("closed connections from {}: there were more than {} that had not shown "
                           "yet that they belong to the job",
                           oldest->second.peer.host, limits_.connections));
  return true;
}

void Acceptor::endure_no_descriptors(int listener) {
  const std::string reason = std::generic_category().message(errno);
  if (!std::exchange(told_of_descriptors_, true)) {
    log::warning(fmt::format(
        "{} cannot accept a connection: {}; it keeps retrying and closes unauthenticated "
        "connections; allow this task more file descriptors (ulimit -n)",
        server_, reason));
  }
  {
    const std::lock_guard lock(mutex_);
    if (end_one_of_most()) return;
  }
  // The one who waits longest is turned away, and may come again.
  if (reserve_ >= 0) ::close(std::exchange(reserve_, -1));
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) ::close(fd);
  open_reserve();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void Acceptor::open_reserve() { reserve_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

void Acceptor::drop(Connections::iterator at, const std::string& why) {
  // The thread that took it sees the end as well.
  ::shutdown(at->second.fd, SHUT_RDWR);
  if (!why.empty()) log_.tell(why);
  forget(at);
}

void Acceptor::forget(Connections::iterator at) {
  const Connection& connection = at->second;
  // Closing alone would not do: who took the connection has another descriptor of it.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, connection.fd, nullptr);
  ::close(connection.fd);
  if (const auto place = per_place_.find(connection.neighbourhood); --place->second == 0)
    per_place_.erase(place);
  if (const auto id = by_peer_.find(connection.peer);
      id != by_peer_.end() && id->second == at->first)
    by_peer_.erase(id);
  connections_.erase(at);
}

}  // namespace muster::inline v0_1::net
