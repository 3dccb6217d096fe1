#include <fmt/format.h>

#include <span>
#include <utility>

#include "muster/base/process_identity.h"
#include "muster/net/message_socket.h"
#include "muster/plan/failure.h"
#include "muster/ps/closures.h"
#include "muster/ps/internal/peer.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {
namespace {

class Client final : public ClosureClient {
 public:
  explicit Client(ClosureOptions options)
      : options_(std::move(options)),
        incarnation_(new_incarnation()),
        chief_{.name = plan::readable_task(cluster().workers.front().name()),
               .answer_timeout = kAnswerTimeout,
               .check = [this] { check_told_to_stop(); }},
        calls_(connect(net::Purpose::kCalls)),
        beats_({.peer = chief_.name,
                .interval = options_.servers.heartbeat_interval.count(),
                .heartbeat_timeout = options_.servers.heartbeat_timeout.count(),
                .word = [] { return net::encode(calls::Request{.operation = calls::Beat()}); }},
               connect(net::Purpose::kBeat)) {}

  const std::string& form() const override { return form_; }
  bool over() const override { return over_; }

  std::optional<Call> next(double seconds) override {
    Call call;
    over_ =
        ask(calls::Next{seconds}, {}, [&](net::MessageSocket& socket, const calls::Given& given) {
          if (given.ticket == 0) return;
          call.ticket = given.ticket;
          call.closure = {.function = given.function,
                          .arguments = receive_all(socket, given.arguments)};
          call.state = receive_all(socket, given.state);
        }).over;
    if (call.ticket == 0) return std::nullopt;
    return call;
  }

  bool finish(const Call& call, const std::vector<Tensor>& results,
              const std::vector<Tensor>& state) override {
    std::vector<Tensor> all = results;
    all.insert(all.end(), state.begin(), state.end());
    return ask(calls::Made{call.ticket, forms_of(results), forms_of(state)}, all).holds;
  }

  bool fail(const Call& call, const Error& error) override {
    return ask(calls::Failed{call.ticket, error}).holds;
  }

  void leave() noexcept override {
    try {
      send_message(*calls_, calls::Request{.operation = calls::Bye()});
      (void)calls_->receive(kGoodbyeTimeout);
    } catch (const std::exception&) {
      // It is gone as well.
    }
  }

 private:
  const cluster::ResolvedCluster& cluster() const { return options_.start.cluster; }
  void check_told_to_stop() const {
    if (!options_.start.cancelled || !options_.start.cancelled()) return;
    throw Error(ErrorKind::kCancelled,
                fmt::format("asked to stop while {} did not answer", chief_.name));
  }

  std::unique_ptr<net::MessageSocket> connect(net::Purpose purpose) {
    auto socket = connect_to(chief_,
                             {.address = cluster().addresses.front(),
                              .job = cluster().job,
                              .task = cluster().task.name(),
                              .timeout_seconds = options_.start.join_timeout,
                              .idle_timeout_seconds = options_.servers.idle_timeout.count()},
                             options_.start.cancelled);
    net::Handshake greeting =
        handshake_of(cluster(), options_.servers, cluster().rank, incarnation_, purpose);
    greeting.definitions = options_.definitions;
    form_ = ask_peer<net::Handshake>(chief_, *socket, net::encode(greeting)).form;
    return socket;
  }

  template <typename Operation>
  net::AnswerTo<Operation> ask(const Operation& asked, std::span<const Tensor> tensors = {},
                               const Receive<Operation>& receive = {}) {
    return ask_peer<Operation>(chief_, *calls_, net::encode(calls::Request{.operation = asked}),
                               tensors, receive);
  }

  static constexpr double kAnswerTimeout = 60;  // the chief holds no request for this long
  static constexpr double kGoodbyeTimeout = 2;

  const ClosureOptions options_;
  const uint64_t incarnation_;
  const Peer chief_;
  std::string form_;
  const std::unique_ptr<net::MessageSocket> calls_;
  bool over_ = false;
  Heartbeats beats_;
};

}  // namespace

std::unique_ptr<ClosureClient> connect_closures(ClosureOptions options) {
  return std::make_unique<Client>(std::move(options));
}

}  // namespace muster::inline v0_1::ps
