#include "muster/net/socket_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "muster/net/internal/coordinator_calls.h"

namespace muster::inline v0_1::net {
namespace {

using Steady = std::chrono::steady_clock;

// The time limit of one try to connect.
constexpr double kConnectSeconds = 2;
// The longest standstill within a request or a reply.
constexpr double kIdleSeconds = 5;
// The length of one wait for a message of the coordinator; then it waits again.
constexpr double kNextPushSeconds = 3600;

}  // namespace

struct SocketChannel::Impl {
  using Socket = std::unique_ptr<MessageSocket>;

  Impl(std::string of_coordinator, cluster::Job of_both, std::string own_task)
      : address(std::move(of_coordinator)), job(std::move(of_both)), task(std::move(own_task)) {}

  const std::string address;
  const cluster::Job job;
  const std::string task;
  std::atomic<bool> closed = false;
  std::mutex mutex{};
  std::vector<Socket> idle{};          // between two calls
  std::set<MessageSocket*> running{};  // of calls in progress

  // Keeps the socket in `running`, so that close() can end its call.
  class Running {
   public:
    Running(Impl& impl, MessageSocket& socket) : impl_(impl), socket_(socket) {
      const std::lock_guard lock(impl_.mutex);
      impl_.running.insert(&socket_);
      if (impl_.closed) socket_.close();
    }
    ~Running() {
      const std::lock_guard lock(impl_.mutex);
      impl_.running.erase(&socket_);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Impl& impl_;
    MessageSocket& socket_;
  };

  Socket connect(double timeout_seconds) {
    return connect_messages({.address = address,
                             .job = job,
                             .task = task,
                             .timeout_seconds = timeout_seconds,
                             .idle_timeout_seconds = kIdleSeconds,
                             .cancelled = [this] { return closed.load(); },
                             .tries_again = false});
  }

  // A connection that waits for its next call; nothing if there is none.
  Socket take_idle() {
    const std::lock_guard lock(mutex);
    while (!idle.empty()) {
      Socket socket = std::move(idle.back());
      idle.pop_back();
      // A coordinator that ended meanwhile has closed it.
      if (!socket->is_over()) return socket;
    }
    return nullptr;
  }

  Result<Reply> call(const CoordinatorRequest& request, double timeout_seconds) {
    const auto until =
        Steady::now() + std::chrono::duration_cast<Steady::duration>(
                            std::chrono::duration<double>(std::max(0.0, timeout_seconds)));
    const auto left = [&] { return std::chrono::duration<double>(until - Steady::now()).count(); };
    const std::string fields = encode(request);
    if (fields.size() > kMaxMessageBytes)
      return too_large("a message to the coordinator", fields.size());
    try {
      Socket socket = take_idle();
      if (!socket) socket = connect(std::min(timeout_seconds, kConnectSeconds));
      Reply reply;
      {
        const Running running(*this, *socket);
        send_fields(*socket, fields);
        // The connection of a call without an answer is closed: that ends the call there, too.
        if (!socket->receive(left()))
          return Error(ErrorKind::kTimeout,
                       fmt::format("the coordinator at {} did not answer within {:.1f} s", address,
                                   timeout_seconds));
        reply = decode<Reply>(receive_fields(*socket));
      }
      const std::lock_guard lock(mutex);
      if (!closed) idle.push_back(std::move(socket));
      return reply;
    } catch (const Error& error) {
      return error_of(error);
    }
  }

  Error error_of(const Error& error) const {
    if (closed)
      return Error(ErrorKind::kCancelled,
                   fmt::format("the channel to the coordinator at {} was closed", address));
    if (error.kind() == ErrorKind::kInvalidArgument) return error;
    return Error(error.kind(),
                 fmt::format("the coordinator at {} did not answer: {}", address, error.message()),
                 error.hint());
  }
};

SocketChannel::SocketChannel(std::string address, cluster::Job job, std::string task)
    : impl_(std::make_unique<Impl>(std::move(address), std::move(job), std::move(task))) {}

SocketChannel::~SocketChannel() { close(); }

Result<Reply> SocketChannel::join(const JoinRequest& request, double timeout_seconds) {
  return impl_->call(request, timeout_seconds);
}
Result<Reply> SocketChannel::beat(const BeatRequest& request, double timeout_seconds) {
  return impl_->call(request, timeout_seconds);
}
Result<Reply> SocketChannel::declare_model(const ModelRequest& request, double timeout_seconds) {
  return impl_->call(request, timeout_seconds);
}
Result<Reply> SocketChannel::barrier(const BarrierRequest& request, double timeout_seconds) {
  return impl_->call(request, timeout_seconds);
}
Result<Reply> SocketChannel::store(const StoreRequest& request, double timeout_seconds) {
  return impl_->call(request, timeout_seconds);
}
Result<Reply> SocketChannel::fail(const FailRequest& request, double timeout_seconds) {
  return impl_->call(request, timeout_seconds);
}
Result<Reply> SocketChannel::goodbye(const GoodbyeRequest& request, double timeout_seconds) {
  return impl_->call(request, timeout_seconds);
}

Status SocketChannel::watch(const plan::Caller& who,
                            const std::function<void(const Reply&)>& receive) {
  try {
    const Impl::Socket socket = impl_->connect(kConnectSeconds);
    const Impl::Running running(*impl_, *socket);
    send_fields(*socket,
                encode(CoordinatorRequest(WatchRequest{.who = who, .process = own_process()})));
    for (;;) {
      if (socket->receive(kNextPushSeconds)) receive(decode<Reply>(receive_fields(*socket)));
    }
  } catch (const Error& error) {
    return impl_->error_of(error);
  }
}

void SocketChannel::close() {
  const std::lock_guard lock(impl_->mutex);
  impl_->closed = true;
  for (MessageSocket* socket : impl_->running) socket->close();
  impl_->idle.clear();
}

}  // namespace muster::inline v0_1::net
