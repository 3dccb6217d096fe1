#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/cluster/protection_check.h"
#include "muster/net/internal/dial.h"
#include "muster/net/internal/local_socket.h"
#include "muster/net/internal/stream.h"
#include "muster/net/internal/tls_stream.h"
#include "muster/net/internal/token_proof.h"
#include "muster/net/message_socket.h"
#include "muster/net/port.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::net {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kLookSeconds = 0.05;  // between looks at `cancelled`
constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(500);

class Connecting {
 public:
  explicit Connecting(const ConnectOptions& options)
      : options_(options),
        where_(split_address(options.address)),
        until_(Steady::now() + std::chrono::duration_cast<Steady::duration>(
                                   from_seconds(options.timeout_seconds))) {
    constexpr size_t kMostTask = 256;
    if (options.task.size() > kMostTask) {
      throw invalid_argument(fmt::format("the name of a task has {} bytes, and {} are allowed",
                                         options.task.size(), kMostTask));
    }
    cluster::check_protected(options.job, "the server", options.address);
    if (options.job.tls) tls_.emplace(*options.job.tls);
    if (options.same_host_shortcut) find_local_name();
  }

  std::unique_ptr<MessageSocket> run() {
    auto pause = std::chrono::duration_cast<Steady::duration>(kFirstPause);
    for (;;) {
      throw_when_cancelled();
      if (auto socket = try_once()) return socket;
      if (!options_.tries_again) throw Error(kind_, reason_);
      if (Steady::now() + pause >= until_) throw late();
      for (const auto end = Steady::now() + pause; Steady::now() < end;) {
        throw_when_cancelled();
        std::this_thread::sleep_for(std::min<Steady::duration>(
            end - Steady::now(),
            std::chrono::duration_cast<Steady::duration>(from_seconds(kLookSeconds))));
      }
      pause = std::min<Steady::duration>(2 * pause, kLongestPause);
    }
  }

 private:
  void find_local_name() {
    try {
      local_name_ = local_name(join_address(where_.host, where_.port), options_.job);
    } catch (const Error&) {
      // Then there is TCP alone.
    }
  }

  void throw_when_cancelled() const {
    if (options_.cancelled && options_.cancelled()) {
      throw Error(ErrorKind::kCancelled,
                  fmt::format("stopped connecting to {}: the connection is no longer needed",
                              options_.address));
    }
  }

  // Nothing, with the reason in `reason_`, when it is worth trying again.
  std::unique_ptr<MessageSocket> try_once() {
    if (!local_name_.empty()) {
      if (FileDescriptor socket = connect_local(local_name_); socket.is_open())
        return prove(std::move(socket));
    }
    Dialled dialled = dial(options_.address, until_, options_.cancelled);
    if (dialled.socket.is_open()) return prove(std::move(dialled.socket));
    note(dialled.unknown_host ? ErrorKind::kNotFound : ErrorKind::kUnavailable,
         std::move(dialled.reason));
    return nullptr;
  }

  std::unique_ptr<MessageSocket> prove(FileDescriptor connection) {
    prepare_for_data(connection.get());
    auto stream = tls_ ? tls_->connected(std::move(connection), where_.host)
                       : plain_stream(std::move(connection));
    MessageSocketOptions options{.peer = options_.address,
                                 .peer_task = {},
                                 .idle_timeout_seconds = options_.idle_timeout_seconds,
                                 .most_head_bytes = kMostProofBytes};
    auto socket = std::make_unique<MessageSocket>(std::move(stream), options);
    const std::string server = fmt::format("the server at {}", options_.address);
    try {
      const ProvedServer proved = prove_to_server(*socket, options_.job, options_.task, server,
                                                  [&] { return wait_for_message(*socket); });
      if (!proved.busy_why.empty()) {
        note(ErrorKind::kUnavailable, proved.busy_why);
        return nullptr;
      }
      if (!proved.task.empty())
        options.peer = fmt::format("{} ({})", plan::readable_task(proved.task), options_.address);
      options.peer_task = proved.task;
      options.most_head_bytes = kMaxHeadBytes;
      socket->set_options(std::move(options));
      return socket;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInvalidArgument || error.kind() == ErrorKind::kCancelled)
        throw;
      if (error.kind() == ErrorKind::kCorrupt)
        throw invalid_argument(
            fmt::format("what listens at {} is not a server of a job: {}", options_.address,
                        error.message()),
            "compare the addresses in TF_CONFIG of all tasks, and their versions of Muster");
      // It may have had too many connections that had not proved themselves.
      note(error.kind(), error.message());
      return nullptr;
    }
  }

  void note(ErrorKind kind, std::string reason) {
    kind_ = kind;
    reason_ = std::move(reason);
  }

  std::string wait_for_message(MessageSocket& socket) const {
    while (Steady::now() < until_) {
      throw_when_cancelled();
      if (auto message = socket.receive(kLookSeconds)) return std::move(message->text);
    }
    throw Error(ErrorKind::kTimeout, "it accepts the connection and does not answer");
  }

  Error late() const {
    return Error(
        ErrorKind::kTimeout,
        fmt::format("{} could not connect to {} within {:.3g} s: {}",
                    options_.task.empty() ? "this task" : plan::readable_task(options_.task),
                    options_.address, options_.timeout_seconds, reason_),
        "see the output of the task at that address: it may have ended, have refused this one, or "
        "have certificates (MUSTER_TLS_CERT) where this one has none");
  }

  const ConnectOptions& options_;
  const HostPort where_;
  const Steady::time_point until_;
  std::optional<TlsContext> tls_;
  std::string local_name_;
  std::string reason_ = "no answer";  // why the last try failed
  ErrorKind kind_ = ErrorKind::kTimeout;
};

}  // namespace

std::unique_ptr<MessageSocket> connect_messages(const ConnectOptions& options) {
  return Connecting(options).run();
}

}  // namespace muster::inline v0_1::net
