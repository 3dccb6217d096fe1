#include "muster/control/coordinator_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/process_identity.h"
#include "muster/control/internal/coordinator_watch.h"
#include "muster/control/internal/join_group.h"
#include "muster/control/internal/member_session.h"
#include "muster/control/internal/missing.h"

namespace muster::inline v0_1::control {
namespace {

using State = plan::Verdict::State;

// What reporting a failure may take, with the heartbeat before it.
constexpr double kReportSeconds = 2;

JoinOptions with_incarnation(JoinOptions options) {
  if (options.incarnation == 0) options.incarnation = new_incarnation();
  return options;
}

}  // namespace

Error to_error(const Failure& failure) {
  // What is wrong with a program or its data is wrong again after a restart, on every task.
  if (failure.kind == ErrorKind::kInvalidArgument || failure.kind == ErrorKind::kNotFound)
    return Error(failure.kind, failure.describe());
  const std::string cause = failure.task.empty() ? "check the network between the tasks"
                                                 : fmt::format("see the output of {} for the cause",
                                                               plan::readable_task(failure.task));
  return Error(ErrorKind::kPeerLost, failure.describe(),
               cause +
                   "; the same command continues from the last checkpoint, or starts from the "
                   "beginning without one");
}

struct CoordinatorClient::Impl {
  explicit Impl(JoinOptions given)
      : options(with_incarnation(std::move(given))),
        who{options.task, options.incarnation},
        clock(*options.clock),
        joined(join_group(options, who)),
        channel(*joined.channel),
        session(options, who, channel, joined.coordinator) {}

  double since(TimePoint start) const { return to_seconds(clock.now() - start); }

  // One request until it is answered. When the network fails, the heartbeat decides whether the
  // coordinator is lost; until then `again` asks again (false for requests that must not be done
  // twice: the error comes after the verdict).
  template <typename Send>
  net::Reply ask(Send send, bool again = true) {
    const TimePoint start = clock.now();
    const double patience = options.heartbeat_timeout + options.reconnect_timeout + kAnswerTimeout;
    for (;;) {
      session.throw_if_over();
      Result<net::Reply> reply = send();
      if (reply.ok()) {
        const plan::Verdict& verdict = reply.value().verdict;
        if (verdict.state == State::kFailed) {
          session.learn(*verdict.failure);
          throw to_error(*verdict.failure);
        }
        if (verdict.state == State::kRefused) throw *verdict.refusal;
        return std::move(reply.value());
      }
      // Asking again would not help.
      if (reply.error().kind() == ErrorKind::kInvalidArgument) throw reply.error();
      session.doubt(again ? kRetrySeconds : patience);
      session.throw_if_over();
      if (!again || since(start) > patience) throw reply.error();
    }
  }

  // Asks until kReady or the deadline; answers the last reply. `what` it waits for stands in the
  // log when that takes long, and in the error when this task is told to stop.
  template <typename Send>
  net::Reply ask_until(std::optional<double> timeout_seconds, const std::string& what, Send send,
                       bool last = false) {
    const TimePoint start = clock.now();
    std::optional<TimePoint> told_to_stop;
    double next_report = options.report_every;
    for (;;) {
      double wait = options.poll_interval;
      if (options.cancelled) wait = std::min(wait, kLookSeconds);
      if (timeout_seconds) wait = std::clamp(*timeout_seconds - since(start), 0.0, wait);
      net::Reply reply = ask([&] { return send(wait); });
      if (reply.verdict.state == State::kReady ||
          (timeout_seconds && since(start) >= *timeout_seconds)) {
        return reply;
      }
      const std::vector<plan::MissingTask>& missing = reply.verdict.missing;
      if (options.cancelled && options.cancelled()) {
        if (!told_to_stop) told_to_stop = clock.now();
        stop_when_vain(missing, since(*told_to_stop), what, last);
      }
      if (since(start) >= next_report && !missing.empty()) {
        next_report = since(start) + options.report_every;
        log::info(fmt::format("{} waits {} for {}", plan::readable_task(options.task), what,
                              describe(missing)));
      }
    }
  }

  // This task was told to stop `seconds` ago. A task that saves or evaluates usually got the
  // request too, and arrives soon; so do all tasks at the `last` barrier.
  void stop_when_vain(const std::vector<plan::MissingTask>& missing, double seconds,
                      const std::string& what, bool last) const {
    const bool busy = std::ranges::any_of(missing, &plan::MissingTask::busy);
    if ((busy || last) && seconds < options.stop_timeout) return;
    throw Error(ErrorKind::kCancelled,
                missing.empty()
                    ? fmt::format("stopped while it waited {}", what)
                    : fmt::format("stopped while it waited {} for {}", what, describe(missing)));
  }

  // Comes to a barrier and waits there.
  net::Reply pass(const std::string& name, std::optional<double> timeout_seconds, bool last) {
    net::BarrierRequest request{.who = who, .name = name, .generation = next_generation(name)};
    const MemberSession::Waiting waiting(session);
    const auto send = [&](double wait) {
      request.wait_seconds = wait;
      return channel.barrier(request, wait + kAnswerTimeout);
    };
    return ask_until(timeout_seconds, fmt::format("at barrier \"{}\"", name), send, last);
  }

  net::Reply store(net::StoreRequest request, bool again = true) {
    request.who = who;
    return ask([&] { return channel.store(request, kAnswerTimeout); }, again);
  }

  int64_t next_generation(const std::string& barrier) {
    std::lock_guard lock(mutex);
    return generations[barrier]++;
  }

  const JoinOptions options;
  const plan::Caller who;
  Clock& clock;
  const Joined joined;
  net::CoordinatorChannel& channel;
  std::mutex mutex{};
  std::map<std::string, int64_t> generations{};  // of barriers
  MemberSession session;                         // last: its threads use what is above
};

std::unique_ptr<CoordinatorClient> CoordinatorClient::join(JoinOptions options) {
  return std::unique_ptr<CoordinatorClient>(
      new CoordinatorClient(std::make_unique<Impl>(std::move(options))));
}

CoordinatorClient::CoordinatorClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CoordinatorClient::~CoordinatorClient() { close(); }

int64_t CoordinatorClient::epoch() const { return impl_->joined.epoch; }
const JoinOptions& CoordinatorClient::options() const { return impl_->options; }

void CoordinatorClient::report(Phase phase, int64_t step) { impl_->session.report(phase, step); }

void CoordinatorClient::declare_model(const std::vector<std::string>& signature) {
  const net::ModelRequest request{.who = impl_->who, .signature = signature};
  impl_->ask([&] { return impl_->channel.declare_model(request, kAnswerTimeout); });
}

void CoordinatorClient::last_barrier() { impl_->pass("finish", std::nullopt, /*last=*/true); }

void CoordinatorClient::barrier(const std::string& name, std::optional<double> timeout_seconds) {
  const net::Reply reply = impl_->pass(name, timeout_seconds, /*last=*/false);
  if (reply.verdict.state == State::kReady) return;
  throw Error(ErrorKind::kTimeout,
              fmt::format("{} waited {:.1f} s at barrier \"{}\"; still missing: {}",
                          plan::readable_task(impl_->options.task), *timeout_seconds, name,
                          describe(reply.verdict.missing)));
}

void CoordinatorClient::set(const std::string& key, const std::string& value) {
  impl_->store({.operation = net::StoreOperation::kSet, .keys = {key}, .value = value});
}

std::string CoordinatorClient::get(const std::string& key, std::optional<double> timeout_seconds) {
  net::StoreRequest request{
      .who = impl_->who, .operation = net::StoreOperation::kWait, .keys = {key}};
  net::Reply reply = impl_->ask_until(timeout_seconds, "for a key", [&](double wait) {
    request.wait_seconds = wait;
    return impl_->channel.store(request, wait + kAnswerTimeout);
  });
  if (reply.verdict.state != State::kReady) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("{} waited {:.1f} s for '{}', which no task has set",
                            plan::readable_task(impl_->options.task), *timeout_seconds, key));
  }
  if (reply.values.empty())
    throw internal_error(fmt::format("the coordinator sent no value for key \"{}\"", key));
  return std::move(reply.values.front());
}

int64_t CoordinatorClient::add(const std::string& key, int64_t amount) {
  return impl_
      ->store({.operation = net::StoreOperation::kAdd, .keys = {key}, .amount = amount},
              /*again=*/false)
      .number;
}

bool CoordinatorClient::erase(const std::string& key) {
  return impl_->store({.operation = net::StoreOperation::kErase, .keys = {key}}).number != 0;
}

bool CoordinatorClient::check(const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  return impl_->store({.operation = net::StoreOperation::kCheck, .keys = keys}).number != 0;
}

void CoordinatorClient::fail(ErrorKind kind, const std::string& reason) {
  if (!impl_->session.note_own_failure()) return;
  // The failure is recorded with the step and phase of the last heartbeat: make that one fresh.
  (void)impl_->channel.beat(impl_->session.beat(), kReportSeconds / 2);
  const Result<net::Reply> reply =
      impl_->channel.fail({.who = impl_->who, .kind = kind, .reason = reason}, kReportSeconds / 2);
  if (reply.ok() || reply.error().kind() == ErrorKind::kCancelled) return;  // or they have ended
  log::warning("could not notify the other tasks of this failure: " + reply.error().message());
}

void CoordinatorClient::report_lost_connection(const std::string& reason) {
  const double limit = kReportSeconds / 2;
  (void)impl_->channel.beat(impl_->session.beat(), limit);
  (void)impl_->channel.fail(
      {.who = impl_->who, .kind = ErrorKind::kPeerLost, .reason = reason, .lost_connection = true},
      limit);
}

std::optional<Failure> CoordinatorClient::first_failure() const {
  return impl_->session.first_failure();
}

void CoordinatorClient::check_failure() const {
  if (std::optional<Failure> failure = first_failure()) throw to_error(*failure);
}

void CoordinatorClient::on_failure(std::function<void(const Failure&)> callback) {
  impl_->session.on_failure(std::move(callback));
}

void CoordinatorClient::done() {
  impl_->session.show(Phase::kDone);
  const net::GoodbyeRequest request{.who = impl_->who, .leaving = false};
  const net::Reply reply =
      impl_->ask([&] { return impl_->channel.goodbye(request, kAnswerTimeout); });
  impl_->session.finish(reply.all_done);
}

bool CoordinatorClient::all_done() const { return impl_->session.all_done(); }

void CoordinatorClient::close(bool for_good) { impl_->session.close(for_good); }

}  // namespace muster::inline v0_1::control
