#include "muster/control/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/process_identity.h"

namespace muster::inline v0_1::control {
namespace {

using State = plan::Verdict::State;

plan::CoordinatorOptions with_epoch(plan::CoordinatorOptions group, Clock& clock) {
  if (group.first_epoch <= 0) group.first_epoch = static_cast<int64_t>(clock.wall_seconds());
  return group;
}

}  // namespace

Coordinator::Coordinator(Options options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      state_(with_epoch(options_.group, clock), to_seconds(clock.now().time_since_epoch())) {}

void Coordinator::note_change() {
  ++changes_;
  changed_.notify_all();
}

void Coordinator::wait_for_change(std::unique_lock<std::mutex>& lock, TimePoint deadline,
                                  const std::function<bool()>& cancelled) {
  const uint64_t seen = changes_;
  wait_for(lock, deadline, cancelled, [&] { return changes_ != seen; });
}

void Coordinator::wait_for(std::unique_lock<std::mutex>& lock, TimePoint deadline,
                           const std::function<bool()>& cancelled,
                           const std::function<bool()>& done) {
  const TimePoint look = clock_.now() + from_seconds(options_.look_interval);
  clock_.wait_until(lock, changed_, std::min(deadline, look),
                    [&] { return done() || ending_ || (cancelled && cancelled()); });
}

void Coordinator::tick_until_ended() {
  const double limit = std::min(options_.group.heartbeat_timeout, options_.group.reconnect_timeout);
  const Duration interval = from_seconds(std::clamp(limit / 8, 0.01, 0.25));
  // A process that is killed closes its connections a moment before it has ended.
  constexpr Duration kEndLook = std::chrono::milliseconds(10);
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const bool had_failed = state_.first_failure().has_value();
    look_for_ended();
    state_.tick(now());
    if (!had_failed && state_.first_failure()) note_change();
    const size_t known = disconnected_.size();
    clock_.wait_for(lock, changed_, known > 0 ? std::min(kEndLook, interval) : interval,
                    [&] { return ending_ || disconnected_.size() != known; });
  }
}

void Coordinator::look_for_ended() {
  std::erase_if(joining_, [this](const auto& item) {
    const net::JoinRequest& request = item.second;
    if (state_.is_connected(request.who)) return true;
    if (!has_ended(request.process)) return false;
    state_.process_ended(request.who, {request.rank, request.world_size, request.addresses}, now());
    note_change();
    return true;
  });
  std::erase_if(disconnected_, [this](const net::WatchRequest& request) {
    if (!state_.is_disconnected(request.who)) return true;
    if (!has_ended(request.process)) return false;
    state_.process_ended(request.who);
    return true;
  });
}

void Coordinator::forget_joining(const plan::Caller& who) {
  const auto joins = joining_.find(who.task);
  if (joins != joining_.end() && joins->second.who.incarnation == who.incarnation)
    joining_.erase(joins);
}

void Coordinator::end() {
  std::lock_guard lock(mutex_);
  ending_ = true;
  note_change();
}

std::optional<plan::Failure> Coordinator::first_failure() const {
  std::lock_guard lock(mutex_);
  return state_.first_failure();
}

bool Coordinator::all_know_of_start_failure() const {
  std::lock_guard lock(mutex_);
  return state_.all_know_of_start_failure();
}

int Coordinator::connections() const {
  std::lock_guard lock(mutex_);
  return state_.connections();
}

int64_t Coordinator::newcomers() const {
  std::lock_guard lock(mutex_);
  return state_.newcomers();
}

bool Coordinator::wait_until_drained(double goodbye_timeout) {
  std::unique_lock lock(mutex_);
  const TimePoint until = clock_.now() + from_seconds(goodbye_timeout);
  while (!state_.drained() && !ending_ && clock_.now() < until) {
    wait_for_change(lock, until, nullptr);
  }
  return state_.drained();
}

net::Reply Coordinator::poll(const net::Call& call, double wait_seconds,
                             const std::function<plan::Verdict()>& decide) {
  // What is not a number waits not at all.
  const double held = wait_seconds > 0 ? std::min(wait_seconds, options_.poll_limit) : 0;
  const TimePoint until = clock_.now() + from_seconds(held);
  std::unique_lock lock(mutex_);
  bool first = true;
  for (;;) {
    plan::Verdict verdict = decide();
    // The first look may have completed what others wait for; later looks change nothing.
    if (first || verdict.state != State::kWaiting) note_change();
    first = false;
    const bool give_up = ending_ || clock_.now() >= until || call.cancelled();
    if (verdict.state != State::kWaiting || give_up)
      return {.verdict = std::move(verdict), .epoch = state_.epoch()};
    wait_for_change(lock, until, call.cancelled);
  }
}

net::Reply Coordinator::join(const net::JoinRequest& request, const net::Call& call) {
  net::Reply reply = poll(call, request.wait_seconds, [&] {
    plan::Verdict verdict =
        state_.join(request.who, request.rank, request.world_size, now(), request.addresses);
    const bool comes = verdict.state == State::kWaiting || verdict.state == State::kReady;
    if (comes && joining_[request.who.task].who.incarnation != request.who.incarnation)
      joining_[request.who.task] = request;
    return verdict;
  });
  // The chief's log shows why a task does not join.
  if (reply.verdict.state == State::kRefused) {
    log::warning_once(fmt::format("{} was refused: {}", plan::readable_task(request.who.task),
                                  reply.verdict.refusal->message()));
  }
  if (reply.verdict.state == State::kWaiting && call.cancelled()) {
    std::lock_guard lock(mutex_);
    state_.abandon_join(request.who);
  }
  return reply;
}

net::Reply Coordinator::beat(const net::BeatRequest& request) {
  std::lock_guard lock(mutex_);
  plan::HeartbeatReply answer = state_.heartbeat(request.who, request.phase, request.step, now());
  net::Reply reply{.epoch = answer.epoch, .all_done = answer.all_done};
  if (answer.failure) {
    reply.verdict.state = State::kFailed;
    reply.verdict.failure = std::move(answer.failure);
  }
  return reply;
}

net::Reply Coordinator::declare_model(const net::ModelRequest& request) {
  std::lock_guard lock(mutex_);
  note_change();
  return {.verdict = state_.declare_model(request.who, request.signature)};
}

net::Reply Coordinator::barrier(const net::BarrierRequest& request, const net::Call& call) {
  return poll(call, request.wait_seconds,
              [&] { return state_.barrier(request.who, request.name, request.generation, now()); });
}

net::Reply Coordinator::wait_for_keys(const net::StoreRequest& request, const net::Call& call) {
  std::vector<std::string> values;
  net::Reply reply = poll(call, request.wait_seconds, [&] {
    plan::Verdict verdict = state_.may_use_store(request.who);
    if (verdict.state == State::kReady) verdict = state_.wait(request.who, request.keys);
    if (verdict.state == State::kReady) {
      // They are taken while they are known to be there.
      for (const std::string& key : request.keys) values.push_back(*state_.store().get(key));
    }
    return verdict;
  });
  reply.values = std::move(values);
  return reply;
}

net::Reply Coordinator::store(const net::StoreRequest& request, const net::Call& call) {
  using Operation = net::StoreOperation;
  if (request.keys.empty()) throw invalid_argument("a store request names no key");
  if (request.operation == Operation::kWait) return wait_for_keys(request, call);
  std::lock_guard lock(mutex_);
  net::Reply reply{.verdict = state_.may_use_store(request.who)};
  if (reply.verdict.state != State::kReady) return reply;
  plan::KeyValueStore& store = state_.store();
  switch (request.operation) {
    case Operation::kSet:
      store.set(request.keys[0], request.value);
      break;
    case Operation::kAdd:
      reply.number = store.add(request.keys[0], request.amount);
      break;
    case Operation::kErase:
      reply.number = store.erase(request.keys[0]);
      break;
    case Operation::kCheck:
      reply.number = store.has_all(request.keys);
      break;
    default:
      throw invalid_argument("a store request asks for an unknown operation");
  }
  note_change();
  return reply;
}

net::Reply Coordinator::fail(const net::FailRequest& request) {
  std::lock_guard lock(mutex_);
  if (request.world_size > 0) {
    forget_joining(request.who);
    state_.fail_to_join(request.who, {request.rank, request.world_size, request.addresses},
                        request.kind, request.reason, now());
  } else if (request.lost_connection ||
             (options_.group.min_members > 0 && request.kind == ErrorKind::kPeerLost)) {
    state_.report_lost_connection(request.who, request.reason, now());
  } else {
    state_.fail(request.who, request.kind, request.reason);
  }
  note_change();
  return {};
}

net::Reply Coordinator::goodbye(const net::GoodbyeRequest& request) {
  std::lock_guard lock(mutex_);
  forget_joining(request.who);
  if (request.leaving) {
    state_.leave(request.who, request.for_good);
  } else {
    state_.done(request.who);
  }
  note_change();
  return {.all_done = state_.all_done()};
}

void Coordinator::watch(const net::WatchRequest& request, const net::Call& call,
                        const std::function<bool(const net::Reply&)>& send) {
  const plan::Caller& who = request.who;
  std::unique_lock lock(mutex_);
  if (!state_.may_connect(who)) {
    // A task that this group does not know hears why, and costs no thread.
    const net::Reply reply{.verdict = state_.wait(who, {}), .epoch = state_.epoch()};
    lock.unlock();
    send(reply);
    return;
  }
  state_.connected(who);
  // An observer may have no group yet, and a member's group may not have failed: both are nothing.
  plan::Verdict verdict = state_.wait(who, {});
  bool told = false;
  const auto failed = [&, seen = changes_]() mutable {
    if (!told && std::exchange(seen, changes_) != changes_) verdict = state_.wait(who, {});
    return !told && verdict.failure;
  };
  while (!ending_ && !call.cancelled()) {
    if (!told && verdict.failure) {
      told = true;
      const net::Reply reply{.verdict = std::move(verdict), .epoch = state_.epoch()};
      lock.unlock();
      const bool sent = send(reply);
      lock.lock();
      if (!sent) break;
    }
    wait_for(lock, TimePoint::max(), call.cancelled, failed);
  }
  if (!ending_) {
    state_.disconnected(who, now());
    if (!request.process.space.empty()) disconnected_.push_back(request);
  }
  note_change();
}

}  // namespace muster::inline v0_1::control
