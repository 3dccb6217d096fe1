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
      : options(std::move(given)),
        task(fmt::format("node:{}", first.node)),
        link(options.limits, std::move(first), seconds_now()),
        thread([this] { run(); }) {}

  template <typename Work>
  auto locked(const Work& work) const {
    const std::lock_guard lock(mutex);
    return work();
  }

  void run() {
    while (!is_over()) {
      try {
        const auto socket =
            net::connect_messages({.address = options.address,
                                   .job = options.job,
                                   .task = task,
                                   .timeout_seconds = kConnectSeconds,
                                   .idle_timeout_seconds = options.limits.heartbeat_timeout,
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
    locked([&] { link.opened(seconds_now()); });
    while (!is_over()) {
      if (const auto due = locked([&] { return link.take_due(seconds_now()); })) {
        socket.send(net::encode(ReportMessage{options.process, *due}));
        locked([&] { link.sent(*due); });
        changed.notify_all();
      }
      if (const auto answer = socket.receive(kListenSeconds)) {
        if (answer->payload_bytes != 0) throw corrupt("an answer of the rendezvous has no payload");
        take(net::decode<RunView>(answer->text));
      } else if (const auto silence = locked([&] { return link.silence(seconds_now()); })) {
        throw *silence;
      }
    }
  }

  void take(RunView heard) {
    locked([&] {
      if (heard.refused) end(*heard.refused);
      link.heard(std::move(heard), seconds_now());
    });
  }

  void note(const Error& error) {
    locked([&] {
      link.failed(error.message(), nobody_listens(error), seconds_now());
      if (error.kind() == ErrorKind::kInvalidArgument) end(error);
    });
  }

  // REQUIRES: `mutex` is held.
  void end(const Error& error) {
    failure = error;
    over = true;
    changed.notify_all();
  }

  bool is_over() const {
    return locked([&] { return over; });
  }

  const ClientOptions options;
  const std::string task;
  mutable std::mutex mutex;
  std::condition_variable changed;
  RendezvousLink link;
  std::optional<Error> failure;
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
  NodeReport changed = impl_->link.report();
  change(changed);
  impl_->link.say(std::move(changed));
}

RunView RendezvousClient::view() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->failure) throw *impl_->failure;
  return impl_->link.view();
}

std::optional<RendezvousLoss> RendezvousClient::loss() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->link.loss(seconds_now());
}

void RendezvousClient::leave(double seconds) {
  update([](NodeReport& report) { report.state = NodeReport::State::kLeaving; });
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                          [this] { return impl_->link.has_said_all() || impl_->over; });
}

}  // namespace muster::inline v0_1::nodes
