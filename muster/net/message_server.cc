#include "muster/net/message_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/cluster/protection_check.h"
#include "muster/net/internal/acceptor.h"
#include "muster/net/internal/dial.h"
#include "muster/net/internal/job_words.h"
#include "muster/net/internal/listener.h"
#include "muster/net/internal/local_socket.h"
#include "muster/net/internal/peer.h"
#include "muster/net/internal/refusal_log.h"
#include "muster/net/internal/stream.h"
#include "muster/net/internal/tls_stream.h"
#include "muster/net/internal/token_proof.h"
#include "muster/net/port.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::net {
namespace {

AcceptorLimits limits_of(const MessageServerOptions& options) {
  // A proof is two messages.
  constexpr size_t kHandshakeBytes = 24 << 10;
  return {
      .connections = options.max_unproved_connections,
      .bytes = static_cast<int64_t>(2 * kMostProofBytes + (options.job.tls ? kHandshakeBytes : 0)),
      .seconds = options.unproved_seconds};
}

MessageServerOptions checked(MessageServerOptions options) {
  cluster::check_protected(options.job, "the server", options.address);
  return options;
}

}  // namespace

struct MessageServer::Impl {
  Impl(MessageServerOptions given, Serve serve_connection)
      : options(checked(std::move(given))), serve(std::move(serve_connection)) {
    if (options.job.tls) tls.emplace(*options.job.tls);
    Listener listener = Listener::at(options.address);
    port = listener.port();
    address = join_address(split_address(options.address).host, port);
    if (options.same_host_shortcut) listen_on_this_host(listener);
    acceptor.emplace(std::move(listener), limits_of(options),
                     fmt::format("the server at {}", address), options.job.tls.has_value(), log,
                     [this](int fd, const Peer& peer) { take(FileDescriptor(fd), peer); });
    acceptor->start();
  }

  // One that has been taken in.
  struct Connection {
    std::thread thread{};
    MessageSocket* socket = nullptr;  // while the thread has one
    bool proved = false;
    bool over = false;
  };
  using Connections = std::list<Connection>;

  // Without it, tasks on this host come over TCP.
  void listen_on_this_host(Listener& listener) {
    try {
      FileDescriptor socket = listen_local(local_name(address, options.job));
      if (socket.is_open()) listener.adopt(std::move(socket));
    } catch (const Error& error) {
      log::debug(fmt::format("tasks on this host reach {} over TCP: {}", address, error.message()));
    }
  }

  // On the acceptor's thread.
  void take(FileDescriptor connection, const Peer& peer) {
    join_those_that_are_over();
    const std::lock_guard lock(mutex);
    // Those that the acceptor has ended may not have noticed it yet.
    if (stopping ||
        connections.size() >= options.max_connections + 2 * options.max_unproved_connections)
      return;
    const auto at = connections.emplace(connections.end());
    try {
      at->thread = std::thread([this, at, peer, fd = std::move(connection)]() mutable {
        attend(*at, std::move(fd), peer);
      });
    } catch (const std::system_error& error) {
      connections.erase(at);
      log::warning_once(fmt::format("the server at {} cannot start a thread for a connection: {}",
                                    address, error.what()));
    }
  }

  void attend(Connection& connection, FileDescriptor fd, const Peer& peer) {
    try {
      prepare_for_data(fd.get());
      MessageSocket socket(tls ? tls->accepted(std::move(fd)) : plain_stream(std::move(fd)),
                           {.peer = peer.host,
                            .peer_task = {},
                            .idle_timeout_seconds = patience(),
                            .most_head_bytes = kMostProofBytes});
      const Seat seat(*this, connection, socket);
      attend(connection, socket, peer);
    } catch (const std::exception& error) {
      tell_of_end(peer.host, error);
    }
    const std::lock_guard lock(mutex);
    connection.over = true;
  }

  // While it lives, stop() closes the socket.
  class Seat {
   public:
    Seat(Impl& server, Connection& connection, MessageSocket& socket)
        : server_(server), connection_(connection) {
      const std::lock_guard lock(server_.mutex);
      connection_.socket = &socket;
      if (server_.stopping) socket.close();
    }
    ~Seat() {
      const std::lock_guard lock(server_.mutex);
      connection_.socket = nullptr;
      connection_.proved = false;
    }
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;

   private:
    Impl& server_;
    Connection& connection_;
  };

  void attend(Connection& connection, MessageSocket& socket, const Peer& peer) {
    const std::optional<std::string> task = meet(socket, peer);
    if (!task) return;
    if (!make_room_for(connection)) {
      const std::string why =
          fmt::format("it has {} connections, its maximum", options.max_connections);
      log.tell(fmt::format("refused a task at {}: the server at {} has {} connections, its maximum",
                           peer.host, address, options.max_connections));
      turn_away(socket, why);
      return;
    }
    // One that took too long was closed.
    if (!acceptor->proved(peer)) return;
    socket.set_options(
        {.peer = task->empty()
                     ? peer.host
                     : fmt::format("{} ({})", printable_beginning(plan::readable_task(*task)),
                                   peer.host),
         .peer_task = *task,
         .idle_timeout_seconds = options.idle_timeout_seconds});
    welcome(socket);
    try {
      serve(socket);
    } catch (const std::exception& error) {
      tell_of_end(socket.peer(), error);
    }
  }

  // Tasks go when they are done, and the server closes what is left at its end.
  static void tell_of_end(const std::string& who, const std::exception& error) {
    const auto* const known = dynamic_cast<const Error*>(&error);
    const bool usual = known != nullptr && (known->kind() == ErrorKind::kPeerLost ||
                                            known->kind() == ErrorKind::kCancelled);
    const std::string text = fmt::format("the connection of {} ended: {}", who, error.what());
    usual ? log::debug(text) : log::warning(text);
  }

  // The task at the other end; nothing for an unauthenticated peer, of whom the log tells.
  std::optional<std::string> meet(MessageSocket& socket, const Peer& peer) {
    const auto tell = [&](std::string_view why) {
      log.tell(fmt::format("refused a connection from {}: {}", peer.host, why));
    };
    try {
      ProvedClient proved =
          prove_to_client(socket, options.job, options.task, [&] { return next_message(socket); });
      if (proved.refusal.empty()) return std::move(proved.task);
      tell(proved.refusal);
    } catch (const Error& error) {
      // Of those that took too long or were too many, the acceptor tells.
      switch (error.kind()) {
        case ErrorKind::kCorrupt:
          tell("its message is not from a task");
          break;
        case ErrorKind::kInvalidArgument:
          tell(error.message());
          // It hears why, too.
          socket.part(patience());
          break;
        case ErrorKind::kPeerLost:
          if (tls) log.tell(ended_over_tls(peer.host));
          break;
        default:
          break;
      }
    }
    return std::nullopt;
  }

  // It is the acceptor that ends what takes too long, and tells of it.
  double patience() const { return 2 * options.unproved_seconds + 1; }

  std::string next_message(MessageSocket& socket) const {
    auto message = socket.receive(patience());
    if (!message) throw Error(ErrorKind::kTimeout, "it says nothing");
    if (message->payload_bytes != 0) throw corrupt("a proof has no payload");
    return std::move(message->text);
  }

  bool make_room_for(Connection& connection) {
    const std::lock_guard lock(mutex);
    const auto count = std::ranges::count_if(connections, &Connection::proved);
    if (static_cast<size_t>(count) >= options.max_connections) return false;
    connection.proved = true;
    return true;
  }

  void join_those_that_are_over() {
    Connections over;
    {
      const std::lock_guard lock(mutex);
      for (auto at = connections.begin(); at != connections.end();) {
        const auto here = at++;
        if (here->over) over.splice(over.end(), connections, here);
      }
    }
    for (Connection& connection : over) connection.thread.join();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      for (const Connection& connection : connections) {
        if (connection.socket != nullptr) connection.socket->close();
      }
    }
    acceptor->stop();
    // No peer is accepted any more.
    for (Connection& connection : connections) {
      if (connection.thread.joinable()) connection.thread.join();
    }
    connections.clear();
  }

  const MessageServerOptions options;
  const Serve serve;
  std::optional<TlsContext> tls{};
  int port = 0;
  std::string address{};
  RefusalLog log;
  std::mutex mutex{};
  bool stopping = false;
  Connections connections;
  std::once_flag stopped{};
  std::optional<Acceptor> acceptor{};  // last: its thread uses what is above
};

MessageServer::MessageServer(MessageServerOptions options, Serve serve)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(serve))) {}

MessageServer::~MessageServer() { stop(); }

int MessageServer::port() const { return impl_->port; }

std::string MessageServer::address() const { return impl_->address; }

std::string MessageServer::last_refusal() const { return impl_->log.last(); }

void MessageServer::stop() {
  std::call_once(impl_->stopped, [this] { impl_->stop(); });
}

}  // namespace muster::inline v0_1::net
