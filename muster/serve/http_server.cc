#include "muster/serve/http_server.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "muster/base/descriptor_limit.h"
#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/cluster/address.h"
#include "muster/serve/internal/connection_threads.h"
#include "muster/serve/internal/http_connection.h"

namespace muster::inline v0_1::serve {
namespace {

// Connections beyond the allowed number that are answered at the same time.
constexpr size_t kMostTurnedAway = 64;
// How long one of them may take to send something and to receive the answer.
constexpr Duration kTurnedAwayTime = std::chrono::seconds(2);

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// A socket that listens at the address, or errno.
Result<FileDescriptor> listen_at(const addrinfo& address) {
  const auto failed = [] { return from_errno(errno, "cannot listen"); };
  FileDescriptor made(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.is_open()) return failed();
  const int yes = 1;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(made.get(), address.ai_addr, address.ai_addrlen) != 0) return failed();
  if (::listen(made.get(), SOMAXCONN) != 0) return failed();
  return made;
}

// The first address of the host's at which it can listen.
FileDescriptor listen_at(const std::string& host, int port) {
  const std::string where = "cannot listen at " + cluster::join_address(host, port);
  const auto refused = [&] {
    return invalid_argument(where, "name an address of this machine, and a port you may take");
  };
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0)
    throw refused();
  const Addresses addresses(found, freeaddrinfo);
  bool taken = false;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Result<FileDescriptor> made = listen_at(*each);
    if (made.ok()) return std::move(made).value();
    taken |= made.error().kind() == ErrorKind::kUnavailable;
  }
  if (taken) throw from_errno(EADDRINUSE, where, "take another --port");
  throw refused();
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  // Both families have the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Connections for which there is no thread. Each gets a 503 once it has sent something, so that the
// answer belongs to a request, and is closed.
class TurnedAway {
 public:
  explicit TurnedAway(ServingMetrics& metrics) : metrics_(metrics) {}

  void add(FileDescriptor connection) {
    if (all_.size() == kMostTurnedAway) all_.pop_front();
    all_.push_back({std::move(connection), system_clock().now() + kTurnedAwayTime, false});
  }
  // The events to wait for, in the order of step().
  void add_to(std::vector<pollfd>& entries) const {
    for (const Each& each : all_) entries.push_back({each.connection.get(), POLLIN, 0});
  }
  // Continues with the connections for which `entries` say that something came.
  void step(const pollfd* entries) {
    const TimePoint now = system_clock().now();
    std::erase_if(all_, [&](Each& each) {
      const bool came = (entries++)->revents != 0;
      return now > each.deadline || (came && !go_on(each));
    });
  }
  bool empty() const { return all_.empty(); }

 private:
  struct Each {
    FileDescriptor connection;
    TimePoint deadline;
    bool told;
  };

  // False when the client is gone.
  bool go_on(Each& each) {
    char dropped[16 << 10];
    const int socket = each.connection.get();
    const ssize_t count = recv(socket, dropped, sizeof dropped, 0);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    if (std::exchange(each.told, true)) return true;
    metrics_.observe_request("other", 503, 0);
    const bool head_only =
        std::string_view(dropped, static_cast<size_t>(count)).starts_with("HEAD");
    const std::string bytes = internal::bytes_of_answer(
        internal::error_answer(503, "too many connections are open; ask again later"), true,
        !head_only);
    // The send buffer of a new connection holds that much.
    return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0 &&
           shutdown(socket, SHUT_WR) == 0;
  }

  ServingMetrics& metrics_;
  std::deque<Each> all_;
};

}  // namespace

struct HttpServer::Impl {
  Impl(HttpHandler answer, const HttpServerOptions& given, ServingMetrics& metrics)
      : handler(std::move(answer)),
        options(given),
        context{handler, options, metrics, stopping},
        listener(listen_at(options.host, options.port)),
        port(port_of(listener.get())),
        wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread([this] { run(); }) {}

  // Accepts until stop(), then waits for the connections.
  void run();
  void accept_all(internal::ConnectionThreads& threads, TurnedAway& turned_away);

  const HttpHandler handler;
  const HttpServerOptions options;
  std::atomic<bool> stopping{false};
  const internal::ConnectionContext context;
  FileDescriptor listener;
  const int port{};
  const FileDescriptor wake;
  std::mutex mutex{};
  std::condition_variable changed{};
  bool ended = false;
  std::thread thread{};  // the last: it uses all others
};

void HttpServer::Impl::run() {
  {
    raise_descriptor_limit();
    internal::ConnectionThreads threads(
        options.max_connections,
        [this](const FileDescriptor& socket) { internal::serve_connection(socket, context); });
    TurnedAway turned_away(context.metrics);
    std::vector<pollfd> entries;
    while (!stopping.load()) {
      entries = {{wake.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
      turned_away.add_to(entries);
      const int at_most = turned_away.empty() ? -1 : 100;
      if (poll(entries.data(), entries.size(), at_most) < 0) continue;
      turned_away.step(entries.data() + 2);
      if (entries[1].revents != 0) accept_all(threads, turned_away);
    }
    listener = FileDescriptor();
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

void HttpServer::Impl::accept_all(internal::ConnectionThreads& threads, TurnedAway& turned_away) {
  while (!stopping.load()) {
    FileDescriptor connection(
        accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection.is_open()) {
      // Without a descriptor the connection waits in the kernel until there is one.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (errno != ECONNABORTED && errno != EINTR) return;
      continue;
    }
    const int yes = 1;
    setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (!threads.take(connection)) turned_away.add(std::move(connection));
  }
}

HttpServer::HttpServer(HttpHandler handler, const HttpServerOptions& options,
                       ServingMetrics& metrics)
    : impl_(std::make_unique<Impl>(std::move(handler), options, metrics)) {}

HttpServer::~HttpServer() {
  stop(Duration(0));
  impl_->thread.join();
}

int HttpServer::port() const { return impl_->port; }

bool HttpServer::stop(Duration time) {
  impl_->stopping.store(true);
  (void)eventfd_write(impl_->wake.get(), 1);
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, time, [this] { return impl_->ended; });
}

}  // namespace muster::inline v0_1::serve
