#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/net/message_socket.h"
#include "muster/plan/failure.h"
#include "muster/ps/closures.h"
#include "muster/ps/internal/closure_wire.h"
#include "muster/ps/internal/incarnation.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {
namespace {

using nlohmann::json;

class Client final : public ClosureClient {
 public:
  explicit Client(ClosureOptions options)
      : options_(std::move(options)),
        incarnation_(new_incarnation()),
        chief_(plan::readable_task(cluster().workers.front().name())),
        calls_(connect("calls")),
        beats_(connect("beat")) {
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
    const json told = ask({{"op", "next"}, {"wait", seconds}}, {}, [&](const json& head) {
      if (head.at("told") != "call") return;
      call.ticket = head.at("ticket").get<int64_t>();
      call.closure = {.function = head.at("function").get<std::string>(),
                      .arguments = receive_all(*calls_, head.at("arguments"))};
      call.state = receive_all(*calls_, head.at("state"));
    });
    over_ = told.at("told") == "over";
    if (call.ticket == 0) return std::nullopt;
    return call;
  }

  bool finish(const Call& call, const std::vector<Tensor>& results,
              const std::vector<Tensor>& state) override {
    std::vector<Tensor> all = results;
    all.insert(all.end(), state.begin(), state.end());
    return ask({{"op", "done"},
                {"ticket", call.ticket},
                {"results", forms_of(results)},
                {"state", forms_of(state)}},
               all)
        .at("counts")
        .get<bool>();
  }

  bool fail(const Call& call, const Error& error) override {
    return ask({{"op", "failed"}, {"ticket", call.ticket}, {"error", to_json(error)}})
        .at("counts")
        .get<bool>();
  }

  void leave() noexcept override {
    try {
      send_message(*calls_, {{"op", "bye"}});
      (void)receive_head(*calls_, kGoodbye);
    } catch (const std::exception&) {
      // It is gone as well.
    }
  }

 private:
  const cluster::ResolvedCluster& cluster() const { return options_.start.cluster; }
  bool told_to_stop() const { return options_.start.cancelled && options_.start.cancelled(); }

  std::unique_ptr<net::MessageSocket> connect(const std::string& purpose) {
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
    json greeting =
        handshake_of(cluster(), options_.servers, cluster().rank, incarnation_, purpose);
    greeting["definitions"] = options_.definitions;
    form_ = ask_on(*socket, greeting, {}, {}).at("form").get<std::string>();
    return socket;
  }

  json ask(const json& request, std::span<const Tensor> tensors = {},
           const std::function<void(const json&)>& receive = {}) {
    return ask_on(*calls_, request, tensors, receive);
  }

  json ask_on(net::MessageSocket& socket, const json& request, std::span<const Tensor> tensors,
              const std::function<void(const json&)>& receive) const {
    json told;
    try {
      send_message(socket, request, tensors);
      told = wait_for_answer(socket);
      if (receive && !told.contains("error")) receive(told);
      if (socket.payload_left() > 0) socket.skip_payload();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
      throw Error(ErrorKind::kPeerLost, fmt::format("{} was lost: {}", chief_, error.message()),
                  error.hint());
    }
    if (told.contains("error")) throw to_error(told.at("error"));
    return told;
  }

  json wait_for_answer(net::MessageSocket& socket) const {
    const TimePoint deadline = system_clock().now() + from_seconds(kLongestAnswer);
    while (system_clock().now() < deadline) {
      if (auto told = receive_head(socket, kLook)) return *std::move(told);
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
        send_message(*beats_, {{"op", "beat"}});
        (void)receive_head(*beats_, options_.servers.heartbeat_timeout_seconds);
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
