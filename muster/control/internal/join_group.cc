#include "muster/control/internal/join_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/process_identity.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/internal/coordinator_watch.h"
#include "muster/control/internal/missing.h"
#include "muster/net/socket_channel.h"

namespace muster::inline v0_1::control {
namespace {

using State = plan::Verdict::State;

// After so many reports a task that has not come is late.
constexpr double kLongReports = 2.5;
// One that has ended may be started again, and has this time to come.
constexpr double kRestartTimeout = 10;
// Where tasks have met before, one makes a call that another one does not make.
constexpr const char* kEveryWorker =
    "every worker calls train(), and an evaluate() under eval_distribute, in the same order, not "
    "in `if (is_chief())` (docs/strategies.md, \"Who calls what\")";

// The state of one wait for the group.
class Joining {
 public:
  Joining(const JoinOptions& options, const plan::Caller& who)
      : options_(options),
        who_(who),
        clock_(*options.clock),
        start_(clock_.now()),
        next_report_(options.report_every / 2),
        itself_(options.task == options.coordinator_task),
        answered_at_(options.answered_before ? std::optional(0.0) : std::nullopt),
        channel_(connect()) {}

  Joined join() {
    for (;;) {
      if (std::optional<int64_t> epoch = ask_once())
        return {std::move(channel_), *epoch, std::move(coordinator_)};
      if (told_to_stop()) {
        say_goodbye();
        throw Error(ErrorKind::kCancelled, fmt::format("stopped while waiting for {}", missing_));
      }
      if (waited() >= options_.join_timeout) throw given_up();
      check_lost();
      check_ended();
      if (waited() >= next_report_) {
        next_report_ = waited() + options_.report_every;
        log::info(fmt::format("{} is waiting for {}{}{}", plan::readable_task(options_.task),
                              missing_, meanwhile(), what_to_look_at()));
      }
    }
  }

 private:
  bool told_to_stop() const { return options_.cancelled && options_.cancelled(); }
  double waited() const { return to_seconds(clock_.now() - start_); }

  std::unique_ptr<net::CoordinatorChannel> connect() const {
    if (options_.connect) return options_.connect(options_.address);
    return std::make_unique<net::SocketChannel>(options_.address, options_.job, options_.task);
  }

  // Those who wait for this task learn that it went: another may come in its place.
  void say_goodbye() {
    constexpr double kSeconds = 1;
    if (reached_)
      (void)channel_->goodbye({.who = who_, .leaving = true, .for_good = true}, kSeconds);
  }

  // The epoch of the group, once there is one; otherwise it notes who is missing.
  std::optional<int64_t> ask_once() {
    const double left = options_.join_timeout - waited();
    // Whether the task was told to stop is asked between two calls.
    const double look = options_.cancelled ? kLookSeconds : options_.poll_interval;
    const double wait =
        std::clamp(left, 0.0, std::min({options_.poll_interval, options_.report_every / 2, look}));
    Result<net::Reply> reply = channel_->join({.who = who_,
                                               .rank = options_.rank,
                                               .world_size = options_.world_size,
                                               .addresses = options_.addresses,
                                               .wait_seconds = wait,
                                               .process = own_process()},
                                              wait + kAnswerTimeout);
    reached_ = reply.ok();
    if (reached_) {
      answered_at_ = waited();
      closed_since_.reset();
    } else {
      // An unauthenticated peer there stays one.
      if (reply.error().kind() == ErrorKind::kInvalidArgument) throw reply.error();
      note_unreached(reply.error());
      return std::nullopt;
    }
    coordinator_ = std::move(reply.value().process);
    const plan::Verdict& verdict = reply.value().verdict;
    if (verdict.state == State::kReady) return reply.value().epoch;
    if (verdict.state == State::kRefused) throw *verdict.refusal;
    if (verdict.state == State::kFailed && !told_to_stop()) throw to_error(*verdict.failure);
    if (!std::exchange(told_waiting_, true))
      log::debug(fmt::format("{} waits to join", plan::readable_task(options_.task)));
    missing_ = describe(verdict.missing);
    const auto silent = std::ranges::find(verdict.missing, "", &plan::MissingTask::where);
    silent_ = silent == verdict.missing.end() ? "" : silent->task;
    note_who_went(verdict.missing);
    return std::nullopt;
  }

  // That a task went is said at once, not when it is time for the next line.
  void note_who_went(const std::vector<plan::MissingTask>& missing) {
    const auto went = std::ranges::count_if(
        missing, [](const plan::MissingTask& task) { return !task.where.empty(); });
    if (went > gone_) next_report_ = waited();
    gone_ = went;
  }

  void note_unreached(const Error& error) {
    if (error.kind() != ErrorKind::kTimeout && !closed_since_) closed_since_ = waited();
    silent_ = itself_ ? "" : options_.coordinator_task;
    // A name may appear in DNS together with its task; a wrong one never does.
    const bool unknown = error.kind() == ErrorKind::kNotFound;
    // So it does to who has certificates and ought not to, or the other way round.
    const bool closed = error.kind() == ErrorKind::kPeerLost;
    const bool accepted = error.kind() == ErrorKind::kTimeout;
    missing_ =
        fmt::format("{} at {} ({:.0f} s{})",
                    itself_ ? "itself" : plan::readable_task(options_.coordinator_task),
                    options_.address, waited(),
                    unknown    ? ", its host name is not known here"
                    : closed   ? ", it closes the connection and its log says why"
                    : accepted ? ", it accepts the connection and does not answer: does another "
                                 "program listen there, or is it suspended?"
                    : itself_  ? ", which answers if it is an address of this machine"
                               : "");
    clock_.sleep_for(from_seconds(kRetrySeconds));
  }

  // Whom the coordinator here refused: perhaps the very task that is missing.
  std::string meanwhile() const {
    const std::string refused = options_.last_refusal ? options_.last_refusal() : std::string();
    return refused.empty() ? "" : "; meanwhile: " + refused;
  }

  void check_lost() const {
    // Where tasks have met before, check_ended() says what such an end means.
    if (closed_since_ && !options_.again && has_ended(coordinator_))
      throw lost("its process has ended");
    if (!options_.lost_timeout || !answered_at_) return;
    const bool silent = waited() - *answered_at_ >= *options_.lost_timeout;
    // As for members of a group: a process that has ended refuses connections at once.
    const bool closed = closed_since_ && waited() - *closed_since_ >= options_.reconnect_timeout;
    if (!silent && !closed) return;
    throw lost(
        fmt::format("no answer from {} for {:.1f} s", options_.address, waited() - *answered_at_));
  }

  Error lost(const std::string& why) const {
    const std::string coordinator = plan::readable_task(options_.coordinator_task);
    return Error(ErrorKind::kUnavailable,
                 fmt::format("{} was lost while {} waited to join its group: {}", coordinator,
                             plan::readable_task(options_.task), why),
                 fmt::format("see the output of {} for the cause", coordinator));
  }

  // One that has ended makes no call any more: the others, too, learn that from the coordinator.
  void check_ended() {
    const std::optional<int> rank =
        options_.ended && !silent_.empty() ? options_.ended(silent_) : std::nullopt;
    if (!rank) {
      ended_since_.reset();
      return;
    }
    if (!ended_since_) ended_since_ = waited();
    if (waited() < *ended_since_ + kRestartTimeout) return;
    const std::string why = fmt::format("its process has ended without {}, to which {} came",
                                        options_.call, plan::readable_task(options_.task));
    if (reached_) {
      (void)channel_->fail({.who = {silent_, who_.incarnation},
                            .kind = ErrorKind::kInvalidArgument,
                            .reason = why,
                            .rank = *rank,
                            .world_size = options_.world_size,
                            .addresses = options_.addresses},
                           kAnswerTimeout);
    }
    throw invalid_argument(fmt::format("{} does not come: {}", plan::readable_task(silent_), why),
                           kEveryWorker);
  }

  // Said once, when it takes longer than tasks need that are started together.
  std::string what_to_look_at() {
    if (silent_.empty() || looked_at_) return "";
    if (options_.again) {
      looked_at_ = true;
      return fmt::format(
          "; {} was in a group with this task before: it has ended, or has not come to {}; {}",
          plan::readable_task(silent_), options_.call, kEveryWorker);
    }
    if (waited() < kLongReports * options_.report_every) return "";
    const std::string how = options_.how_started ? options_.how_started(silent_) : std::string();
    if (how.empty()) return "";
    looked_at_ = true;
    return fmt::format("; was {} started, {}? its output says why it does not come",
                       plan::readable_task(silent_), how);
  }

  Error given_up() const {
    std::string hint =
        "start the missing task, and check that its address in TF_CONFIG can be "
        "reached from here; one that ended says why in its own log";
    // A launcher would have restarted lost tasks by now: the program must change.
    const bool other_call = options_.again && reached_ && !silent_.empty() && meanwhile().empty();
    if (other_call) {
      hint =
          fmt::format("{}; where it comes later, raise join_timeout of RunConfig or ScopeOptions",
                      kEveryWorker);
    }
    if (itself_ && !reached_) hint = "give this task an address in TF_CONFIG that it can reach too";
    if (const std::string refused = meanwhile(); !refused.empty())
      hint = "if the missing task is the one that was refused, mend that; " + hint;
    return Error(other_call ? ErrorKind::kInvalidArgument : ErrorKind::kTimeout,
                 fmt::format("{} waited {:.0f} s in {} for the group to form; still missing: {}{}",
                             plan::readable_task(options_.task), waited(), options_.call, missing_,
                             meanwhile()),
                 hint);
  }

  const JoinOptions& options_;
  const plan::Caller& who_;
  Clock& clock_;
  const TimePoint start_;
  double next_report_;
  const bool itself_;                     // this task serves the coordinator
  std::optional<double> answered_at_;     // when the coordinator answered last; 0: before
  std::optional<double> closed_since_{};  // it does not accept connections
  bool reached_ = false;
  bool told_waiting_ = false;
  std::string missing_;
  std::string silent_;                 // one of them that has told nothing
  bool looked_at_ = false;             // what_to_look_at() was said
  std::optional<double> ended_since_;  // of `silent_`: seen first after so long
  std::ptrdiff_t gone_ = 0;            // tasks that were told to stop
  ProcessIdentity coordinator_{};
  std::unique_ptr<net::CoordinatorChannel> channel_;
};

}  // namespace

Joined join_group(const JoinOptions& options, const plan::Caller& who) {
  return Joining(options, who).join();
}

}  // namespace muster::inline v0_1::control
