#include "muster/nodes/rendezvous_server.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/net/message_server.h"
#include "muster/nodes/rendezvous_messages.h"

namespace muster::inline v0_1::nodes {
namespace {

constexpr double kLookSeconds = 0.05;  // between looks whether there is news for a launcher
constexpr double kRepeatSeconds = 1;   // an answer without news tells that the rendezvous lives
constexpr double kFirstReportSeconds = 10;

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct RendezvousServer::Impl {
  Impl(const std::string& address, const cluster::Job& job, RendezvousOptions options)
      : rendezvous(std::move(options), steady_now()),
        server({.address = address, .job = job, .task = "node:0"},
               [this](net::MessageSocket& socket) { serve(socket); }) {}

  // One launcher's connection, which the rendezvous knows of while this lives.
  class Caller {
   public:
    explicit Caller(Impl& server) : server_(server) {}
    ~Caller() {
      const std::lock_guard lock(server_.mutex);
      if (connected_) server_.rendezvous.disconnected(process_, node_, steady_now());
    }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

    RunView report(const ReportMessage& message) {
      const std::lock_guard lock(server_.mutex);
      if (!heard_) {
        process_ = message.process;
        node_ = message.report.node;
        heard_ = true;
      } else if (process_ != message.process || node_ != message.report.node) {
        throw corrupt("a launcher changes its name");
      }
      RunView view = server_.rendezvous.report(process_, message.report, steady_now());
      if (!connected_) connected_ = server_.rendezvous.connected(process_, node_);
      return view;
    }
    RunView look() {
      const std::lock_guard lock(server_.mutex);
      return server_.rendezvous.look(process_, node_, steady_now());
    }
    bool heard() const { return heard_; }

   private:
    Impl& server_;
    uint64_t process_ = 0;
    int node_ = -1;
    bool heard_ = false;
    bool connected_ = false;
  };

  void serve(net::MessageSocket& socket) {
    Caller caller(*this);
    std::string sent;
    double sent_at = 0;
    const double since = steady_now();
    for (;;) {
      std::optional<RunView> view;
      if (const auto message = socket.receive(kLookSeconds)) {
        if (message->payload_bytes != 0) throw corrupt("a launcher's message has no payload");
        view = caller.report(net::decode<ReportMessage>(message->text));
      } else if (caller.heard()) {
        view = caller.look();
      } else if (steady_now() - since > kFirstReportSeconds) {
        throw Error(ErrorKind::kTimeout, "it says nothing");
      }
      if (!view) continue;
      std::string text = net::encode(*view);
      if (text == sent && steady_now() - sent_at < kRepeatSeconds) continue;
      socket.send(text);
      sent = std::move(text);
      sent_at = steady_now();
      if (!view->refused) continue;
      log::warning(
          fmt::format("refused a launcher at {}: {}", socket.peer(), view->refused->message()));
      socket.part(kFirstReportSeconds);
      return;
    }
  }

  std::mutex mutex;
  Rendezvous rendezvous;
  net::MessageServer server;  // last: its threads use what is above
};

RendezvousServer::RendezvousServer(const std::string& address, const cluster::Job& job,
                                   RendezvousOptions options)
    : impl_(std::make_unique<Impl>(address, job, std::move(options))) {}

RendezvousServer::~RendezvousServer() = default;

std::string RendezvousServer::address() const { return impl_->server.address(); }

bool RendezvousServer::wait_for_all(double seconds) {
  const double until = steady_now() + seconds;
  for (;;) {
    {
      const std::lock_guard lock(impl_->mutex);
      impl_->rendezvous.advance(steady_now());
      if (impl_->rendezvous.all_left()) return true;
    }
    if (steady_now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace muster::inline v0_1::nodes
