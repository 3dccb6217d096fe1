#include "muster/control/coordinator_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/control/internal/messages.h"
#include "muster/net/coordinator_channel.h"

namespace muster::inline v0_1::control {
namespace {

using Steady = std::chrono::steady_clock;
using State = plan::Verdict::State;

constexpr double kRetrySeconds = 0.1;
constexpr double kGoodbyeSeconds = 2;
// An RPC may take so much longer than the wait it asks for before it counts as unanswered.
constexpr double kAnswerSeconds = 3;

Steady::duration seconds(double value) {
  return std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(value));
}
double since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

uint64_t random_incarnation() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;
}

std::string describe(const std::vector<plan::MissingTask>& missing) {
  std::vector<std::string> names;
  for (const plan::MissingTask& task : missing) names.push_back(task.describe());
  return muster::join(names, ", ");
}

}  // namespace

Error to_error(const Failure& failure) {
  if (failure.kind == ErrorKind::kInvalidArgument) return invalid_argument(failure.describe());
  return Error(
      ErrorKind::kPeerLost, failure.describe(),
      fmt::format(
          "see the output of {} for the cause; the same command continues from the last checkpoint",
          plan::readable_task(failure.task)));
}

struct CoordinatorClient::Impl {
  explicit Impl(JoinOptions given)
      : options(std::move(given)),
        who{options.task, options.incarnation},
        channel(std::make_unique<net::CoordinatorChannel>(options.address)) {}

  // --- joining ---

  void join_group() {
    const auto start = Steady::now();
    double next_report = options.report_every / 2;
    const bool itself = options.task == options.coordinator_task;
    const std::string chief =
        fmt::format("{} at {}", itself ? "itself" : plan::readable_task(options.coordinator_task),
                    options.address);
    for (;;) {
      const double left = options.join_deadline - since(start);
      const double wait =
          std::clamp(left, 0.0, std::min(options.poll_interval, options.report_every / 2));
      Result<net::Reply> reply = channel->join({.who = who,
                                                .rank = options.rank,
                                                .world_size = options.world_size,
                                                .wait_seconds = wait},
                                               wait + kAnswerSeconds);
      std::string missing;
      if (reply.ok()) {
        plan::Verdict verdict = from_reply(reply.value());
        if (verdict.state == State::kReady) {
          epoch = reply.value().epoch;
          return;
        }
        if (verdict.state == State::kRefused) throw *verdict.refusal;
        if (verdict.state == State::kFailed) throw to_error(*verdict.failure);
        missing = describe(verdict.missing);
      } else {
        // A name may appear in DNS together with its task; a wrong one never does.
        const bool unknown = reply.error().message().find("DNS resolution") != std::string::npos;
        missing = fmt::format("{} ({:.0f} s{})", chief, since(start),
                              unknown  ? ", its host name is not known here"
                              : itself ? ", which answers if it is an address of this machine"
                                       : "");
        std::this_thread::sleep_for(seconds(kRetrySeconds));
        // A channel that was refused may sit out seconds before it tries again; a new one does not.
        channel = std::make_unique<net::CoordinatorChannel>(options.address);
      }
      if (options.cancelled && options.cancelled()) {
        throw Error(ErrorKind::kCancelled, fmt::format("stopped while waiting for {}", missing));
      }
      if (since(start) >= options.join_deadline) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("{} waited {:.0f} s for the group to form; still missing: {}",
                                plan::readable_task(options.task), since(start), missing),
                    itself && !reply.ok()
                        ? "give this task an address in TF_CONFIG that it can reach too"
                        : "start the missing task, and check that its address in TF_CONFIG can be "
                          "reached from here");
      }
      if (since(start) >= next_report) {
        next_report = since(start) + options.report_every;
        log::info(fmt::format("{} is waiting for {}", plan::readable_task(options.task), missing));
      }
    }
  }

  void start() {
    beater = std::thread([this] { beat_until_closed(); });
    watcher = std::thread([this] { watch_until_closed(); });
  }

  // --- the client's threads ---

  void watch_until_closed() {
    for (;;) {
      Status ended = channel->watch(who, [this](const net::Reply& reply) {
        if (reply.failure) learn(from_note(*reply.failure));
      });
      std::unique_lock lock(mutex);
      if (closing) return;
      // The connection broke: a heartbeat now finds out whether the coordinator lives.
      beat_now = true;
      wake.notify_all();
      wake.wait_for(lock, seconds(kRetrySeconds), [this] { return closing; });
      if (closing) return;
    }
  }

  void beat_until_closed() {
    const double answer_time = std::max(options.heartbeat_timeout / 3, 0.1);
    auto last_answer = Steady::now(), last_loop = last_answer;
    std::optional<Steady::time_point> unreachable_since;
    bool missed = false;  // the last beat had no answer
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait_for(lock, seconds(missed ? kRetrySeconds : options.heartbeat_interval),
                    [this] { return closing || beat_now || must_call_back(); });
      call_back_if_due(lock);
      if (closing) return;
      beat_now = false;
      // A gap that no wait of this loop explains: this process itself was stopped.
      if (since(last_loop) >
          options.heartbeat_interval + answer_time + options.heartbeat_timeout / 2) {
        last_answer = Steady::now();
        unreachable_since.reset();
      }
      last_loop = Steady::now();
      const net::BeatRequest request{.who = who, .phase = static_cast<int>(phase), .step = step};
      lock.unlock();
      // The last beat before the time-out must not outlast it.
      const double left = options.heartbeat_timeout - since(last_answer) + kRetrySeconds / 2;
      Result<net::Reply> reply =
          channel->beat(request, std::clamp(left, kRetrySeconds, answer_time));
      missed = !reply.ok();
      if (reply.ok()) {
        last_answer = Steady::now();
        unreachable_since.reset();
        if (reply.value().failure) learn(from_note(*reply.value().failure));
      } else if (reply.error().kind() == ErrorKind::kUnavailable && !unreachable_since) {
        unreachable_since = Steady::now();
      }
      lock.lock();
      if (reply.ok()) {
        everybody_done = reply.value().all_done;
        continue;
      }
      const bool silent = since(last_answer) > options.heartbeat_timeout;
      const bool broken = unreachable_since && since(*unreachable_since) > options.reconnect_grace;
      // After done() nothing is expected of the coordinator any more: its end is no loss.
      if ((silent || broken) && !finished && !closing) {
        Failure lost{
            .task = options.coordinator_task,
            .rank = 0,
            .kind = ErrorKind::kPeerLost,
            .reason = silent ? fmt::format("the coordinator at {} did not answer for {:.1f} s",
                                           options.address, since(last_answer))
                             : fmt::format(
                                   "the coordinator at {} closed its connections and did not come "
                                   "back within {:.1f} s",
                                   options.address, options.reconnect_grace),
            .step = step,
            .phase = phase};
        learn_locked(std::move(lost));
      }
    }
  }

  bool must_call_back() const { return failure && callback && !called_back; }

  void call_back_if_due(std::unique_lock<std::mutex>& lock) {
    if (!must_call_back()) return;
    called_back = true;
    // Who reported its own failure knows already.
    if (failure->task == options.task && self_reported) return;
    auto call = callback;
    const Failure copy = *failure;
    lock.unlock();
    call(copy);
    lock.lock();
  }

  void learn(Failure news) {
    std::lock_guard lock(mutex);
    learn_locked(std::move(news));
  }

  void learn_locked(Failure news) {
    if (failure || closing) return;
    failure = std::move(news);
    wake.notify_all();
  }

  // --- calls ---

  // Waits until `predicate` holds under the lock, or the time is over.
  template <typename Predicate>
  void pause(double time, Predicate predicate) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, seconds(time), predicate);
  }

  void throw_if_over() {
    std::lock_guard lock(mutex);
    if (failure) throw to_error(*failure);
    if (closing)
      throw Error(ErrorKind::kCancelled,
                  fmt::format("{} left the group", plan::readable_task(options.task)));
  }

  // One request until it is answered. When the network fails, the heartbeat decides whether the
  // coordinator is lost; until then `again` asks anew (false for requests that must not be done
  // twice: the error comes after the verdict).
  template <typename Send>
  plan::Verdict ask(Send send, bool again, net::Reply* full = nullptr) {
    const auto start = Steady::now();
    const double patience = options.heartbeat_timeout + options.reconnect_grace + kAnswerSeconds;
    for (;;) {
      throw_if_over();
      Result<net::Reply> reply = send();
      if (reply.ok()) {
        plan::Verdict verdict = from_reply(reply.value());
        if (verdict.state == State::kFailed) {
          learn(*verdict.failure);
          throw to_error(*verdict.failure);
        }
        if (verdict.state == State::kRefused) throw *verdict.refusal;
        if (full) *full = std::move(reply.value());
        return verdict;
      }
      {
        std::lock_guard lock(mutex);
        beat_now = true;
        wake.notify_all();
      }
      auto over = [this] { return failure || closing; };
      pause(again ? kRetrySeconds : patience, over);
      throw_if_over();
      if (!again || since(start) > patience) throw reply.error();
    }
  }

  // Asks until kReady or the deadline; answers the last verdict.
  template <typename Send>
  plan::Verdict ask_until(std::optional<double> timeout_seconds, Send send,
                          net::Reply* full = nullptr) {
    const auto start = Steady::now();
    for (;;) {
      double wait = options.poll_interval;
      if (timeout_seconds) wait = std::clamp(*timeout_seconds - since(start), 0.0, wait);
      plan::Verdict verdict = ask([&] { return send(wait); }, true, full);
      if (verdict.state == State::kReady || (timeout_seconds && since(start) >= *timeout_seconds))
        return verdict;
    }
  }

  net::Reply store(net::StoreRequest request, bool again = true) {
    request.who = who;
    net::Reply reply;
    ask([&] { return channel->store(request, kAnswerSeconds); }, again, &reply);
    return reply;
  }

  // Shows this task as waiting while it lives.
  class Waiting {
   public:
    explicit Waiting(Impl& impl) : impl_(impl) {
      std::lock_guard lock(impl_.mutex);
      before_ = impl_.phase;
      impl_.phase = Phase::kWaiting;
    }
    ~Waiting() {
      std::lock_guard lock(impl_.mutex);
      if (impl_.phase == Phase::kWaiting) impl_.phase = before_;
    }

   private:
    Impl& impl_;
    Phase before_;
  };

  void close() {
    {
      std::lock_guard lock(mutex);
      if (closing) return;
      closing = true;
      wake.notify_all();
    }
    if (beater.joinable()) {
      if (Result<net::Reply> reply =
              channel->goodbye({.who = who, .leaving = true}, kGoodbyeSeconds);
          !reply.ok()) {
        log::debug(
            fmt::format("goodbye of {} was not heard: {}", options.task, reply.error().message()));
      }
    }
    channel->close();
    if (beater.joinable()) beater.join();
    if (watcher.joinable()) watcher.join();
  }

  const JoinOptions options;
  const net::MemberId who;
  std::unique_ptr<net::CoordinatorChannel> channel;  // replaced only while joining
  int64_t epoch = 0;

  mutable std::mutex mutex;
  std::condition_variable wake;
  bool closing = false;
  bool beat_now = false;
  bool finished = false;
  bool everybody_done = false;
  bool self_reported = false;
  bool called_back = false;
  Phase phase = Phase::kBuilding;
  int64_t step = -1;
  std::optional<Failure> failure;
  std::function<void(const Failure&)> callback;
  std::map<std::string, int64_t> generations;  // of barriers
  std::thread beater, watcher;
};

std::unique_ptr<CoordinatorClient> CoordinatorClient::join(JoinOptions options) {
  if (options.incarnation == 0) options.incarnation = random_incarnation();
  auto impl = std::make_unique<Impl>(std::move(options));
  impl->join_group();
  impl->start();
  return std::unique_ptr<CoordinatorClient>(new CoordinatorClient(std::move(impl)));
}

CoordinatorClient::CoordinatorClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CoordinatorClient::~CoordinatorClient() { close(); }

int64_t CoordinatorClient::epoch() const { return impl_->epoch; }
const JoinOptions& CoordinatorClient::options() const { return impl_->options; }

void CoordinatorClient::report(Phase phase, int64_t step) {
  std::lock_guard lock(impl_->mutex);
  // A phase that others wait for must be known before they ask: the next heartbeat could come too
  // late.
  if (phase != impl_->phase) {
    impl_->beat_now = true;
    impl_->wake.notify_all();
  }
  impl_->phase = phase;
  impl_->step = step;
}

void CoordinatorClient::declare_model(const std::vector<std::string>& signature) {
  const net::ModelRequest request{.who = impl_->who, .signature = signature};
  impl_->ask([&] { return impl_->channel->declare_model(request, kAnswerSeconds); }, true);
}

void CoordinatorClient::barrier(const std::string& name, std::optional<double> timeout_seconds,
                                int count) {
  net::BarrierRequest request{.who = impl_->who, .name = name, .count = count};
  {
    std::lock_guard lock(impl_->mutex);
    request.generation = impl_->generations[name]++;
  }
  Impl::Waiting waiting(*impl_);
  plan::Verdict verdict = impl_->ask_until(timeout_seconds, [&](double wait) {
    request.wait_seconds = wait;
    return impl_->channel->barrier(request, wait + kAnswerSeconds);
  });
  if (verdict.state == State::kReady) return;
  throw Error(ErrorKind::kTimeout,
              fmt::format("{} waited {:.1f} s at barrier \"{}\"; still missing: {}",
                          plan::readable_task(impl_->options.task), *timeout_seconds, name,
                          describe(verdict.missing)));
}

void CoordinatorClient::set(const std::string& key, const std::string& value) {
  impl_->store({.operation = net::StoreOperation::kSet, .keys = {key}, .value = value});
}

namespace {

Error no_key(const std::string& task, const std::vector<std::string>& keys, double time) {
  return Error(ErrorKind::kTimeout,
               fmt::format("{} waited {:.1f} s for {}, which nobody set", plan::readable_task(task),
                           time, join_quoted(keys)));
}

}  // namespace

std::string CoordinatorClient::get(const std::string& key, std::optional<double> timeout_seconds) {
  net::StoreRequest request{
      .who = impl_->who, .operation = net::StoreOperation::kWait, .keys = {key}};
  net::Reply reply;
  plan::Verdict verdict = impl_->ask_until(
      timeout_seconds,
      [&](double wait) {
        request.wait_seconds = wait;
        return impl_->channel->store(request, wait + kAnswerSeconds);
      },
      &reply);
  if (verdict.state != State::kReady) throw no_key(impl_->options.task, {key}, *timeout_seconds);
  if (reply.values.empty())
    throw internal_error(fmt::format("the coordinator sent no value for key \"{}\"", key));
  return std::move(reply.values.front());
}

void CoordinatorClient::wait(const std::vector<std::string>& keys,
                             std::optional<double> timeout_seconds) {
  net::StoreRequest request{
      .who = impl_->who, .operation = net::StoreOperation::kWait, .keys = keys};
  if (keys.empty()) return;
  plan::Verdict verdict = impl_->ask_until(timeout_seconds, [&](double wait) {
    request.wait_seconds = wait;
    return impl_->channel->store(request, wait + kAnswerSeconds);
  });
  if (verdict.state != State::kReady) throw no_key(impl_->options.task, keys, *timeout_seconds);
}

int64_t CoordinatorClient::add(const std::string& key, int64_t amount) {
  return impl_
      ->store({.operation = net::StoreOperation::kAdd, .keys = {key}, .amount = amount},
              /*again=*/false)
      .number;
}

std::string CoordinatorClient::compare_set(const std::string& key, const std::string& expected,
                                           const std::string& desired) {
  net::Reply reply = impl_->store({.operation = net::StoreOperation::kCompareSet,
                                   .keys = {key},
                                   .value = desired,
                                   .expected = expected},
                                  /*again=*/false);
  return reply.values.empty() ? std::string() : std::move(reply.values.front());
}

bool CoordinatorClient::erase(const std::string& key) {
  return impl_->store({.operation = net::StoreOperation::kErase, .keys = {key}}).number != 0;
}

bool CoordinatorClient::check(const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  return impl_->store({.operation = net::StoreOperation::kCheck, .keys = keys}).number != 0;
}

int64_t CoordinatorClient::num_keys() {
  return impl_->store({.operation = net::StoreOperation::kNumKeys}).number;
}

void CoordinatorClient::fail(ErrorKind kind, const std::string& reason) {
  net::BeatRequest where{.who = impl_->who};
  {
    std::lock_guard lock(impl_->mutex);
    if (impl_->closing) return;
    impl_->self_reported = true;
    where.phase = static_cast<int>(impl_->phase);
    where.step = impl_->step;
  }
  // The failure is recorded with the step and phase of the last heartbeat: make that one fresh.
  (void)impl_->channel->beat(where, kGoodbyeSeconds / 2);
  Result<net::Reply> reply = impl_->channel->fail(
      {.who = impl_->who, .kind = static_cast<int>(kind), .reason = reason}, kGoodbyeSeconds / 2);
  if (reply.ok() || reply.error().kind() == ErrorKind::kCancelled) return;  // or they have ended
  log::warning("could not tell the others of this failure: " + reply.error().message());
}

std::optional<Failure> CoordinatorClient::first_failure() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->failure;
}

void CoordinatorClient::check_failure() const {
  if (std::optional<Failure> failure = first_failure()) throw to_error(*failure);
}

void CoordinatorClient::on_failure(std::function<void(const Failure&)> callback) {
  std::lock_guard lock(impl_->mutex);
  impl_->callback = std::move(callback);
  impl_->wake.notify_all();
}

void CoordinatorClient::done() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->phase = Phase::kDone;
  }
  const net::GoodbyeRequest request{.who = impl_->who, .leaving = false};
  net::Reply reply;
  impl_->ask([&] { return impl_->channel->goodbye(request, kAnswerSeconds); }, true, &reply);
  std::lock_guard lock(impl_->mutex);
  impl_->finished = true;
  impl_->everybody_done = reply.all_done;
}

bool CoordinatorClient::all_done() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->everybody_done;
}

void CoordinatorClient::close() { impl_->close(); }

}  // namespace muster::inline v0_1::control
