#include "muster/control/coordinator_server.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "muster/control/internal/messages.h"
#include "muster/net/coordinator_service.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::control {
namespace {

using Steady = std::chrono::steady_clock;

// How often a waiting thread looks whether its peer hung up: this bounds how fast a killed task is
// noticed.
constexpr auto kLook = std::chrono::milliseconds(100);

double seconds_now() {
  return std::chrono::duration<double>(Steady::now().time_since_epoch()).count();
}

int64_t date_epoch() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct CoordinatorServer::Impl : net::CoordinatorHandler {
  explicit Impl(ServerOptions given)
      : options(std::move(given)), state(with_epoch(options.group), seconds_now()) {
    ticker = std::thread([this] { tick(); });
    try {
      service = std::make_unique<net::CoordinatorService>(*this, options.address);
    } catch (...) {
      end_ticker();
      throw;
    }
  }

  static plan::CoordinatorOptions with_epoch(plan::CoordinatorOptions group) {
    if (group.first_epoch <= 0) group.first_epoch = date_epoch();
    return group;
  }

  void tick() {
    const double limit = std::min(options.group.heartbeat_timeout, options.group.reconnect_grace);
    const auto interval = std::chrono::duration<double>(std::clamp(limit / 8, 0.01, 0.25));
    std::unique_lock lock(mutex);
    while (!ending) {
      const bool had_failed = state.first_failure().has_value();
      state.tick(seconds_now());
      if (!had_failed && state.first_failure()) changed.notify_all();
      ticker_wake.wait_for(lock, interval);
    }
  }

  void end_ticker() {
    {
      std::lock_guard lock(mutex);
      ending = true;
    }
    ticker_wake.notify_all();
    changed.notify_all();
    if (ticker.joinable()) ticker.join();
  }

  // Asks `decide` (under the lock) until it has an answer, the peer hangs up or has waited long
  // enough.
  net::Reply poll(const net::Call& call, double wait_seconds,
                  const std::function<plan::Verdict()>& decide) {
    const auto until =
        Steady::now() + std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(
                            std::clamp(wait_seconds, 0.0, options.poll_limit)));
    std::unique_lock lock(mutex);
    bool first = true;
    for (;;) {
      plan::Verdict verdict = decide();
      // The first look may have completed what others wait for; later looks change nothing.
      if (first || verdict.state != plan::Verdict::State::kWaiting) changed.notify_all();
      first = false;
      const bool give_up = ending || Steady::now() >= until || call.cancelled();
      if (verdict.state != plan::Verdict::State::kWaiting || give_up) {
        net::Reply reply = to_reply(verdict);
        reply.epoch = state.epoch();
        return reply;
      }
      changed.wait_for(lock, std::min<Steady::duration>(kLook, until - Steady::now()));
    }
  }

  net::Reply join(const net::JoinRequest& request, const net::Call& call) override {
    const plan::Caller who = from_id(request.who);
    net::Reply reply = poll(call, request.wait_seconds, [&] {
      return state.join(who, request.rank, request.world_size, seconds_now());
    });
    if (reply.answer == net::Answer::kWaiting && call.cancelled()) {
      std::lock_guard lock(mutex);
      state.abandon_join(who);
    }
    return reply;
  }

  net::Reply beat(const net::BeatRequest& request) override {
    std::lock_guard lock(mutex);
    net::Reply reply;
    const auto phase = static_cast<plan::Phase>(
        std::clamp(request.phase, 0, static_cast<int>(plan::Phase::kDone)));
    plan::HeartbeatReply answer =
        state.heartbeat(from_id(request.who), phase, request.step, seconds_now());
    if (answer.failure) {
      reply.answer = net::Answer::kFailed;
      reply.failure = to_note(*answer.failure);
    }
    reply.all_done = answer.all_done;
    reply.epoch = answer.epoch;
    return reply;
  }

  net::Reply declare_model(const net::ModelRequest& request) override {
    std::lock_guard lock(mutex);
    changed.notify_all();
    return to_reply(state.declare_model(from_id(request.who), request.signature));
  }

  net::Reply barrier(const net::BarrierRequest& request, const net::Call& call) override {
    return poll(call, request.wait_seconds, [&] {
      return state.barrier(from_id(request.who), request.name, request.generation, request.count,
                           seconds_now());
    });
  }

  net::Reply store(const net::StoreRequest& request, const net::Call& call) override {
    using Operation = net::StoreOperation;
    const plan::Caller who = from_id(request.who);
    auto values = [&] {
      std::vector<std::string> found;
      for (const std::string& key : request.keys) found.push_back(state.store().get(key).value_or(""));
      return found;
    };
    if (request.operation == Operation::kWait) {
      std::vector<std::string> found;  // taken while the keys are known to be there
      net::Reply reply = poll(call, request.wait_seconds, [&] {
        plan::Verdict verdict = state.wait(who, request.keys);
        if (verdict.state == plan::Verdict::State::kReady) found = values();
        return verdict;
      });
      reply.values = std::move(found);
      return reply;
    }
    std::lock_guard lock(mutex);
    if (plan::Verdict verdict = state.wait(who, {});
        verdict.state != plan::Verdict::State::kReady) {
      return to_reply(verdict);
    }
    if (request.keys.empty() && request.operation != Operation::kNumKeys) {
      throw invalid_argument("a store request names no key");
    }
    net::Reply reply;
    switch (request.operation) {
      case Operation::kSet:
        state.store().set(request.keys[0], request.value);
        break;
      case Operation::kAdd:
        reply.number = state.store().add(request.keys[0], request.amount);
        break;
      case Operation::kCompareSet:
        reply.values = {state.store().compare_set(request.keys[0], request.expected, request.value)};
        break;
      case Operation::kErase:
        reply.number = state.store().erase(request.keys[0]);
        break;
      case Operation::kCheck:
        reply.number = state.wait(who, request.keys).state == plan::Verdict::State::kReady;
        break;
      case Operation::kNumKeys:
        reply.number = state.num_keys();
        break;
      default:
        throw invalid_argument("a store request asks for an unknown operation");
    }
    changed.notify_all();
    return reply;
  }

  net::Reply fail(const net::FailRequest& request) override {
    std::lock_guard lock(mutex);
    const plan::Failure read = from_note({.kind = request.kind});  // checks the number
    state.fail(from_id(request.who), read.kind, request.reason);
    changed.notify_all();
    return {};
  }

  net::Reply goodbye(const net::GoodbyeRequest& request) override {
    std::lock_guard lock(mutex);
    if (request.leaving) {
      state.leave(from_id(request.who));
    } else {
      state.done(from_id(request.who));
    }
    changed.notify_all();
    return {.all_done = state.all_done()};
  }

  void watch(const net::MemberId& who, const net::Call& call,
             const std::function<bool(const net::Reply&)>& send) override {
    const plan::Caller caller = from_id(who);
    std::unique_lock lock(mutex);
    state.connected(caller);
    std::optional<plan::Failure> failure;
    while (!ending && !call.cancelled()) {
      if (!failure && (failure = failure_of(caller))) {
        net::Reply reply{
            .answer = net::Answer::kFailed, .failure = to_note(*failure), .epoch = state.epoch()};
        lock.unlock();
        const bool sent = send(reply);
        lock.lock();
        if (!sent) break;
      }
      changed.wait_for(lock, kLook);
    }
    if (!ending) state.disconnected(caller, seconds_now());
    changed.notify_all();
  }

  // A guest may have no group yet, and a member's group may not have failed: both are nothing.
  std::optional<plan::Failure> failure_of(const plan::Caller& caller) const {
    return state.wait(caller, {}).failure;
  }

  const ServerOptions options;
  mutable std::mutex mutex;
  std::condition_variable changed;  // whatever a waiting call may wait for
  std::condition_variable ticker_wake;
  plan::CoordinatorState state;
  bool ending = false;
  std::thread ticker;
  std::unique_ptr<net::CoordinatorService> service;  // last: it calls all of the above
};

CoordinatorServer::CoordinatorServer(ServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

CoordinatorServer::~CoordinatorServer() { stop(0); }

int CoordinatorServer::port() const { return impl_->service->port(); }

std::string CoordinatorServer::address() const {
  return net::join_address(net::split_address(impl_->options.address).host, port());
}

std::optional<plan::Failure> CoordinatorServer::first_failure() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->state.first_failure();
}

bool CoordinatorServer::stop(double grace_seconds) {
  bool drained;
  {
    std::unique_lock lock(impl_->mutex);
    const auto until = Steady::now() + std::chrono::duration_cast<Steady::duration>(
                                           std::chrono::duration<double>(grace_seconds));
    // The ticker declares silent members lost, so this looks again now and then.
    while (!(drained = impl_->state.drained()) && !impl_->ending && Steady::now() < until) {
      impl_->changed.wait_for(lock, std::min<Steady::duration>(kLook, until - Steady::now()));
    }
  }
  impl_->end_ticker();
  impl_->service->stop();
  return drained;
}

}  // namespace muster::inline v0_1::control
