#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/net/message_socket.h"
#include "muster/plan/failure.h"
#include "muster/ps/closures.h"
#include "muster/ps/internal/incarnation.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {
namespace {

class Client final : public ClosureClient {
 public:
  explicit Client(ClosureOptions options)
      : options_(std::move(options)),
        incarnation_(new_incarnation()),
        chief_(plan::readable_task(cluster().workers.front().name())),
        calls_(connect(net::Purpose::kCalls)),
        beats_(connect(net::Purpose::kBeat)) {
    beater_ = std::thread([this] { beat_until_closed(); });
  }

  ~Client() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    closed_.notify_all();
    beats_->close();
    beater_.join();
  }

  const std::string& form() const override { return form_; }
  bool over() const override { return over_; }

  std::optional<Call> next(double seconds) override {
    Call call;
    over_ = ask(calls::Next{seconds}, {}, [&](const calls::Given& given) {
              if (given.ticket == 0) return;
              call.ticket = given.ticket;
              call.closure = {.function = given.function,
                              .arguments = receive_all(*calls_, given.arguments)};
              call.state = receive_all(*calls_, given.state);
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
      (void)calls_->receive(kGoodbye);
    } catch (const std::exception&) {
      // It is gone as well.
    }
  }

 private:
  const cluster::ResolvedCluster& cluster() const { return options_.start.cluster; }
  bool told_to_stop() const { return options_.start.cancelled && options_.start.cancelled(); }

  std::unique_ptr<net::MessageSocket> connect(net::Purpose purpose) {
    TimePoint told = system_clock().now() - from_seconds(kTellEvery / 2);
    const auto dial = [&] {
      return net::connect_messages({.address = cluster().addresses.front(),
                                    .job = cluster().job,
                                    .task = cluster().task.name(),
                                    .timeout_seconds = options_.start.join_timeout,
                                    .idle_timeout_seconds = options_.servers.idle_timeout_seconds,
                                    .cancelled = [&] {
                                      const TimePoint now = system_clock().now();
                                      if (to_seconds(now - told) >= kTellEvery) {
                                        told = now;
                                        log::info(fmt::format("waiting for {}", chief_));
                                      }
                                      return told_to_stop();
                                    }});
    };
    auto socket = unless_told_to_stop(dial, options_.start.cancelled, chief_);
    net::Handshake greeting =
        handshake_of(cluster(), options_.servers, cluster().rank, incarnation_, purpose);
    greeting.definitions = options_.definitions;
    form_ = exchange<net::Handshake>(*socket, greeting).form;
    return socket;
  }

  template <typename Operation>
  using Receive = std::function<void(const net::AnswerTo<Operation>&)>;
  template <typename Operation>
  net::AnswerTo<Operation> ask(const Operation& asked, std::span<const Tensor> tensors = {},
                               const Receive<Operation>& receive = {}) {
    return exchange<Operation>(*calls_, calls::Request{.operation = asked}, tensors, receive);
  }

  template <typename Operation, typename Message>
  net::AnswerTo<Operation> exchange(net::MessageSocket& socket, const Message& request,
                                    std::span<const Tensor> tensors = {},
                                    const Receive<Operation>& receive = {}) const {
    net::AnswerTo<Operation> told{};
    std::optional<Error> refusal;
    try {
      send_message(socket, request, tensors);
      const std::string answer = wait_for_answer(socket);
      refusal = net::error_in(answer);
      if (!refusal) told = net::decode_answer<net::AnswerTo<Operation>>(answer);
      if (!refusal && receive) receive(told);
      if (socket.payload_left() > 0) socket.skip_payload();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
      throw Error(ErrorKind::kPeerLost, fmt::format("{} was lost: {}", chief_, error.message()),
                  error.hint());
    }
    if (refusal) throw *refusal;
    return told;
  }

  std::string wait_for_answer(net::MessageSocket& socket) const {
    const TimePoint deadline = system_clock().now() + from_seconds(kLongestAnswer);
    while (system_clock().now() < deadline) {
      if (auto told = socket.receive(kLook)) return std::move(told->text);
      if (told_to_stop()) {
        throw Error(ErrorKind::kCancelled,
                    fmt::format("told to stop while {} did not answer", chief_));
      }
    }
    throw Error(ErrorKind::kPeerLost,
                fmt::format("{} has not answered for {:.0f} s", chief_, kLongestAnswer));
  }

  void beat_until_closed() {
    std::unique_lock lock(mutex_);
    while (!closing_) {
      lock.unlock();
      try {
        send_message(*beats_, calls::Request{.operation = calls::Beat()});
        (void)beats_->receive(options_.servers.heartbeat_timeout_seconds);
      } catch (const Error& error) {
        // Whoever asks the chief next finds out.
        log::debug(fmt::format("no heartbeat reaches {}: {}", chief_, error.message()));
        return;
      }
      lock.lock();
      closed_.wait_for(lock, std::chrono::duration<double>(options_.servers.heartbeat_seconds),
                       [&] { return closing_; });
    }
  }

  static constexpr double kLongestAnswer = 60;  // the chief lets no request wait for so long
  static constexpr double kLook = 1;
  static constexpr double kGoodbye = 2;
  static constexpr double kTellEvery = 10;

  const ClosureOptions options_;
  const uint64_t incarnation_;
  const std::string chief_;
  std::string form_;
  const std::unique_ptr<net::MessageSocket> calls_, beats_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable closed_;
  bool closing_ = false;
  std::thread beater_;
};

}  // namespace

std::unique_ptr<ClosureClient> connect_closures(ClosureOptions options) {
  return std::make_unique<Client>(std::move(options));
}

}  // namespace muster::inline v0_1::ps
