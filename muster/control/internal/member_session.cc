#include "muster/control/internal/member_session.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/log.h"
#include "muster/control/coordinator_client.h"

namespace muster::inline v0_1::control {
namespace {

constexpr double kGoodbyeTimeout = 2;
// The threads end within about the time of one call; this only bounds one look of a waiting thread.
constexpr Duration kLook = std::chrono::seconds(10);

}  // namespace

MemberSession::MemberSession(const JoinOptions& options, const plan::Caller& who,
                             net::CoordinatorChannel& channel, const ProcessIdentity& coordinator)
    : options_(options),
      who_(who),
      channel_(channel),
      coordinator_(coordinator),
      clock_(*options.clock) {
  beater_ = std::thread([this] {
    beat_until_closed();
    end_thread();
  });
  listener_ = std::thread([this] {
    listen_until_closed();
    end_thread();
  });
}

MemberSession::~MemberSession() { close(); }

// --- the threads ---

void MemberSession::end_thread() {
  std::lock_guard lock(mutex_);
  --threads_;
  wake_all();
}

void MemberSession::listen_until_closed() {
  for (;;) {
    Status ended = channel_.watch(who_, [this](const net::Reply& reply) {
      if (reply.verdict.failure) learn(*reply.verdict.failure);
    });
    std::unique_lock lock(mutex_);
    if (closing_) return;
    // The connection broke: a heartbeat now finds out whether the coordinator lives.
    beat_now_ = true;
    wake_all();
    // A group that has failed sends nothing more.
    const double pause = failure_ ? options_.heartbeat_interval : kRetrySeconds;
    clock_.wait_for(lock, wake_, from_seconds(pause), [this] { return closing_; });
    if (closing_) return;
  }
}

void MemberSession::beat_until_closed() {
  std::unique_lock lock(mutex_);
  CoordinatorWatch watch(options_, now());
  for (;;) {
    clock_.wait_for(lock, wake_, from_seconds(watch.pause()),
                    [this] { return closing_ || beat_now_ || must_call_back(); });
    call_back_if_due(lock);
    if (closing_) return;
    beat_now_ = false;
    const net::BeatRequest request{.who = who_, .phase = phase_, .step = step_};
    const double limit = watch.begin_beat(now());
    lock.unlock();
    Result<net::Reply> reply = channel_.beat(request, limit);
    lock.lock();
    if (reply.ok()) {
      watch.answered(now());
      all_done_ = reply.value().all_done;
      if (reply.value().verdict.failure) learn_locked(*reply.value().verdict.failure);
    } else {
      const bool unreachable = reply.error().kind() != ErrorKind::kTimeout;
      watch.unanswered(unreachable, now());
      give_up_if_lost(watch, unreachable);
    }
  }
}

void MemberSession::give_up_if_lost(const CoordinatorWatch& watch, bool unreachable) {
  // After done() nothing is expected of the coordinator any more: its end is not a loss.
  if (finished_ || closing_) return;
  std::optional<std::string> reason = watch.why_lost(now());
  if (!reason && unreachable && has_ended(coordinator_))
    reason = fmt::format("the coordinator at {} is lost: its process has ended", options_.address);
  if (!reason) return;
  learn_locked({.task = options_.coordinator_task,
                .rank = 0,
                .kind = ErrorKind::kPeerLost,
                .reason = std::move(*reason),
                .step = step_,
                .phase = phase_});
}

void MemberSession::call_back_if_due(std::unique_lock<std::mutex>& lock) {
  if (!must_call_back()) return;
  called_back_ = true;
  // A task that reported its own failure knows it already.
  if (failure_->task == options_.task && self_reported_) return;
  const auto call = callback_;
  const plan::Failure copy = *failure_;
  lock.unlock();
  call(copy);
  lock.lock();
}

// --- where this task is ---

void MemberSession::report(plan::Phase phase, int64_t step) {
  std::lock_guard lock(mutex_);
  // A phase that others wait for must be known before they ask: the next heartbeat could come too
  // late.
  if (phase != phase_) {
    beat_now_ = true;
    wake_all();
  }
  phase_ = phase;
  step_ = step;
}

void MemberSession::show(plan::Phase phase) {
  std::lock_guard lock(mutex_);
  phase_ = phase;
}

MemberSession::Waiting::Waiting(MemberSession& session) : session_(session) {
  std::lock_guard lock(session_.mutex_);
  before_ = std::exchange(session_.phase_, plan::Phase::kWaiting);
}

MemberSession::Waiting::~Waiting() {
  std::lock_guard lock(session_.mutex_);
  if (session_.phase_ == plan::Phase::kWaiting) session_.phase_ = before_;
}

net::BeatRequest MemberSession::beat() const {
  std::lock_guard lock(mutex_);
  return {.who = who_, .phase = phase_, .step = step_};
}

// --- its state ---

void MemberSession::learn(plan::Failure news) {
  std::lock_guard lock(mutex_);
  learn_locked(std::move(news));
}

void MemberSession::learn_locked(plan::Failure news) {
  if (over()) return;
  failure_ = std::move(news);
  wake_all();
}

bool MemberSession::note_own_failure() {
  std::lock_guard lock(mutex_);
  if (closing_) return false;
  self_reported_ = true;
  return true;
}

std::optional<plan::Failure> MemberSession::first_failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void MemberSession::on_failure(std::function<void(const plan::Failure&)> callback) {
  std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
  wake_all();
}

void MemberSession::throw_if_over() const {
  std::lock_guard lock(mutex_);
  if (failure_) throw to_error(*failure_);
  if (closing_) {
    throw Error(ErrorKind::kCancelled,
                fmt::format("{} left the group", plan::readable_task(options_.task)));
  }
}

void MemberSession::doubt(double seconds) {
  std::unique_lock lock(mutex_);
  beat_now_ = true;
  wake_all();
  clock_.wait_for(lock, wake_, from_seconds(seconds), [this] { return over(); });
}

// --- the end ---

void MemberSession::finish(bool all_done) {
  std::lock_guard lock(mutex_);
  finished_ = true;
  all_done_ = all_done;
}

bool MemberSession::all_done() const {
  std::lock_guard lock(mutex_);
  return all_done_;
}

void MemberSession::close(bool for_good) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closing_, true)) return;
    wake_all();
  }
  const net::GoodbyeRequest request{.who = who_, .leaving = true, .for_good = for_good};
  if (Result<net::Reply> reply = channel_.goodbye(request, kGoodbyeTimeout); !reply.ok()) {
    log::debug(fmt::format("the goodbye message of {} did not arrive: {}", options_.task,
                           reply.error().message()));
  }
  channel_.close();
  {
    // The clock sees this wait, so a simulated one lets the threads run to their end.
    std::unique_lock lock(mutex_);
    while (!clock_.wait_for(lock, wake_, kLook, [this] { return threads_ == 0; })) {
    }
  }
  beater_.join();
  listener_.join();
}

}  // namespace muster::inline v0_1::control
