#include "muster/nodes/rendezvous_client.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/net/message_socket.h"
#include "muster/nodes/rendezvous_messages.h"

namespace muster::inline v0_1::nodes {
namespace {

constexpr double kConnectSeconds = 2;  // for one try
constexpr double kListenSeconds = 0.02;
constexpr double kBeatSeconds = 1;
constexpr auto kPause = std::chrono::milliseconds(100);  // between tries

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whether a try failed because no process listens at an address that answers.
bool nobody_listens(const Error& error) {
  const std::string refused = std::generic_category().message(ECONNREFUSED);
  return error.kind() == ErrorKind::kUnavailable && error.message() == refused;
}

}  // namespace

struct RendezvousClient::Impl {
  Impl(ClientOptions given, NodeReport first)
      : options(std::move(given)), report(std::move(first)), thread([this] { run(); }) {}

  void run() {
    while (!is_over()) {
      try {
        const auto socket =
            net::connect_messages({.address = options.address,
                                   .job = options.job,
                                   .task = fmt::format("node:{}", report.node),
                                   .timeout_seconds = kConnectSeconds,
                                   .idle_timeout_seconds = options.heartbeat_timeout,
                                   .cancelled = [this] { return is_over(); },
                                   .tries_again = false});
        talk(*socket);
      } catch (const Error& error) {
        note(error);
      }
      std::unique_lock lock(mutex);
      changed.wait_for(lock, kPause, [this] { return over; });
    }
  }

  // Until the connection breaks, by an error, or this client is at its end.
  void talk(net::MessageSocket& socket) {
    int64_t sent = -1;
    double sent_at = 0, heard_at = seconds_now();
    while (!is_over()) {
      const auto [number, message] = current();
      if (number != sent || seconds_now() - sent_at > kBeatSeconds) {
        socket.send(net::encode(message));
        sent = number;
        sent_at = seconds_now();
        if (message.report.state == NodeReport::State::kLeaving) {
          const std::lock_guard lock(mutex);
          told_end = true;
          changed.notify_all();
        }
      }
      if (const auto answer = socket.receive(kListenSeconds)) {
        if (answer->payload_bytes != 0) throw corrupt("an answer of the rendezvous has no payload");
        take(net::decode<RunView>(answer->text));
        heard_at = seconds_now();
      } else if (seconds_now() - heard_at > options.heartbeat_timeout) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("no word for {:.1f} s", seconds_now() - heard_at));
      }
    }
  }

  void take(RunView heard) {
    const std::lock_guard lock(mutex);
    last_heard = seconds_now();
    refused_since.reset();
    last_error.clear();
    if (heard.refused) {
      failure = heard.refused;
      over = true;
    }
    view = std::move(heard);
    changed.notify_all();
  }

  void note(const Error& error) {
    const std::lock_guard lock(mutex);
    last_error = error.message();
    if (!nobody_listens(error)) {
      refused_since.reset();
    } else if (!refused_since) {
      refused_since = seconds_now();
    }
    if (error.kind() != ErrorKind::kInvalidArgument) return;
    failure = error;
    over = true;
    changed.notify_all();
  }

  bool is_over() const {
    const std::lock_guard lock(mutex);
    return over;
  }

  std::pair<int64_t, ReportMessage> current() const {
    const std::lock_guard lock(mutex);
    return {changes, {options.process, report}};
  }

  const ClientOptions options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  NodeReport report;
  int64_t changes = 0;  // of the report
  RunView view;
  std::optional<Error> failure;
  std::string last_error;
  double last_heard = 0;  // 0: never
  std::optional<double> refused_since;
  bool told_end = false;
  bool over = false;
  std::thread thread;  // last: it uses what is above
};

RendezvousClient::RendezvousClient(ClientOptions options, NodeReport report)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(report))) {}

RendezvousClient::~RendezvousClient() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->over = true;
    impl_->changed.notify_all();
  }
  impl_->thread.join();
}

void RendezvousClient::update(const std::function<void(NodeReport&)>& change) {
  const std::lock_guard lock(impl_->mutex);
  change(impl_->report);
  ++impl_->changes;
}

RunView RendezvousClient::view() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->failure) throw *impl_->failure;
  return impl_->view;
}

std::optional<RendezvousLoss> RendezvousClient::loss() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->last_heard == 0) return std::nullopt;
  const double now = seconds_now(), silent = now - impl_->last_heard;
  if (impl_->refused_since && now - *impl_->refused_since > impl_->options.reconnect_timeout)
    return RendezvousLoss{"no process listens there any more", /*ended=*/true, silent};
  if (silent <= impl_->options.heartbeat_timeout) return std::nullopt;
  return RendezvousLoss{impl_->last_error.empty() ? "it does not answer" : impl_->last_error,
                        /*ended=*/false, silent};
}

std::string RendezvousClient::last_error() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->last_error;
}

void RendezvousClient::leave(double seconds) {
  update([](NodeReport& report) { report.state = NodeReport::State::kLeaving; });
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                          [this] { return impl_->told_end || impl_->over; });
}

}  // namespace muster::inline v0_1::nodes
