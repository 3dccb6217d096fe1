#include "muster/net/coordinator_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/net/internal/coordinator_calls.h"
#include "muster/net/message_server.h"
#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::net {
namespace {

// A member watches, beats, and makes a call or two in addition, each on a connection of its own.
constexpr int kConnectionsOfOne = 8;
// What is being answered when the service stops may still be sent.
constexpr auto kLastAnswers = std::chrono::milliseconds(50);
// Of one wait for the next request; then it waits again.
constexpr double kNextRequestSeconds = 3600;

// All tasks may come at once, and from one address.
MessageServerOptions options_of(const std::string& address, const cluster::Job& job, int tasks) {
  const int count = std::max(1, tasks);
  const int all = count + plan::CoordinatorState::most_observers(tasks);
  return {.address = address,
          .job = job,
          .task = "the coordinator",
          .max_connections = 64 + static_cast<size_t>(kConnectionsOfOne * all),
          .max_unproved_connections = 32 + 2 * static_cast<size_t>(count)};
}

Reply refusal(const Error& error) {
  return {.verdict = {.state = plan::Verdict::State::kRefused, .refusal = error}};
}

// Answers a request, each as its own overload.
struct Answers {
  CoordinatorHandler& handler;
  const Call& call;

  Reply operator()(const JoinRequest& request) const {
    Reply reply = handler.join(request, call);
    reply.process = own_process();
    return reply;
  }
  Reply operator()(const BeatRequest& request) const { return handler.beat(request); }
  Reply operator()(const ModelRequest& request) const { return handler.declare_model(request); }
  Reply operator()(const BarrierRequest& request) const { return handler.barrier(request, call); }
  Reply operator()(const StoreRequest& request) const { return handler.store(request, call); }
  Reply operator()(const FailRequest& request) const { return handler.fail(request); }
  Reply operator()(const GoodbyeRequest& request) const { return handler.goodbye(request); }
  Reply operator()(const WatchRequest&) const { throw internal_error("watch() answers itself"); }
};

}  // namespace

struct CoordinatorService::Impl {
  Impl(CoordinatorHandler& handles, const std::string& address, const cluster::Job& job, int tasks)
      : handler(handles),
        server(options_of(address, job, tasks), [this](MessageSocket& socket) { serve(socket); }) {}

  void serve(MessageSocket& socket) {
    const Call call{.cancelled = [&socket] { return socket.is_over(); }};
    for (;;) {
      if (!socket.receive(kNextRequestSeconds)) continue;
      const auto request = decode<CoordinatorRequest>(receive_fields(socket));
      if (const auto* watch = std::get_if<WatchRequest>(&request)) {
        handler.watch(*watch, call, [&socket](const Reply& reply) {
          send_fields(socket, encode(reply));
          return true;
        });
        return;
      }
      const Answering answering(*this);
      send_fields(socket, answer_to(request, call));
    }
  }

  // What the handler throws becomes a refusal that the client can rethrow.
  std::string answer_to(const CoordinatorRequest& request, const Call& call) {
    Reply reply;
    try {
      reply = std::visit(Answers{handler, call}, request);
    } catch (const Error& error) {
      reply = refusal(error);
    } catch (const std::exception& error) {
      reply = refusal(Error(ErrorKind::kInternal,
                            fmt::format("the coordinator could not answer: {}", error.what())));
    }
    std::string text = encode(reply);
    if (text.size() <= kMaxMessageBytes) return text;
    return encode(refusal(too_large("the coordinator's answer", text.size())));
  }

  // Counts calls that are being answered.
  class Answering {
   public:
    explicit Answering(Impl& service) : service_(service) { count(1); }
    ~Answering() { count(-1); }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;

   private:
    void count(int change) {
      const std::lock_guard lock(service_.mutex);
      service_.answering += change;
      service_.answered.notify_all();
    }
    Impl& service_;
  };

  void stop() {
    {
      std::unique_lock lock(mutex);
      answered.wait_for(lock, kLastAnswers, [this] { return answering == 0; });
    }
    server.stop();
  }

  CoordinatorHandler& handler;
  std::mutex mutex{};
  std::condition_variable answered{};
  int answering = 0;
  MessageServer server;  // last: its threads use what is above
};

CoordinatorService::CoordinatorService(CoordinatorHandler& handler, const std::string& address,
                                       const cluster::Job& job, int tasks)
    : impl_(std::make_unique<Impl>(handler, address, job, tasks)) {}

CoordinatorService::~CoordinatorService() { stop(); }

int CoordinatorService::port() const { return impl_->server.port(); }

std::string CoordinatorService::last_refusal() const { return impl_->server.last_refusal(); }

void CoordinatorService::stop() { impl_->stop(); }

}  // namespace muster::inline v0_1::net
