#include "muster/nodes/launcher.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "muster/base/exit_code.h"

namespace muster::inline v0_1::nodes {
namespace {

using State = RunView::State;

constexpr double kStopTime = 5;  // seconds for the rendezvous to hear that this launcher stops

}  // namespace

Launcher::Launcher(NodeReport report, std::string rendezvous, double join_time)
    : report_(std::move(report)), rendezvous_(std::move(rendezvous)), join_time_(join_time) {
  report_.state = NodeReport::State::kEnded;  // ready when the tasks have addresses
}

Launcher::Next Launcher::next(const RunView& view, const std::optional<RendezvousLoss>& loss,
                              double now) {
  if (view.state == State::kOver) return leave(view.exit_code);
  const bool gathers = view.state == State::kGathering;
  hear(view);
  if (phase_ == Phase::kHearing && view.rendezvous != 0) return Next::kJoin;
  const bool is_over = view.rendezvous != begun_in_ || view.entry != report_.entry;
  if (phase_ == Phase::kEnded && (gathers || is_over)) return Next::kJoin;
  if (phase_ == Phase::kJoining && !gathers) {
    phase_ = Phase::kRunning;
    begun_in_ = view.rendezvous;
    report_.state = NodeReport::State::kRunning;
    report_.round = view.round;
    report_.entry = view.entry;
    lost_.clear();
    report_.cut_off = false;
    stop_until_.reset();
    return Next::kStart;
  }
  if (loss && (loss->ended || loss->seconds > join_time_)) {
    failure_ = fmt::format(
        "the rendezvous at {} {} ({}): the launcher of node 0 serves it, and without it the run "
        "ends on all machines. Start the same command on all machines again; it continues from the "
        "last checkpoint",
        rendezvous_,
        loss->never ? fmt::format("was not reached within {:g} s", join_time_) : "is lost",
        loss->reason);
    return leave(kExitRestart);
  }
  return stop_until_ && now >= *stop_until_ ? leave(stop_code_) : Next::kWait;
}

void Launcher::join(std::vector<std::string> addresses) {
  phase_ = Phase::kJoining;
  report_.state = NodeReport::State::kReady;
  report_.addresses = std::move(addresses);
  report_.tasks = {};
  report_.cut_off = false;
  report_.outcome = {};
}

launch::OtherGroups Launcher::others(const RunView& view,
                                     const std::optional<RendezvousLoss>& loss) {
  if (lost_.empty() && loss)
    lost_ = fmt::format("lost the rendezvous at {}: {}", rendezvous_, loss->reason);
  const bool is_over =
      view.rendezvous != begun_in_ || view.round != report_.round || view.entry != report_.entry;
  if (lost_.empty() && is_over) lost_ = "the other machines have ended this start of the run";
  // Tasks that began to end do so, whatever is heard later.
  report_.cut_off = !lost_.empty();
  const bool others_continue = report_.least > 0 && report_.node != 0;
  if (report_.cut_off) return {.failed = lost_, .left_out = others_continue};
  launch::OtherGroups others{.too_few = view.too_few,
                             .stop_signal = view.stop_signal,
                             .kills = view.kills,
                             .first_answer = view.first_answer,
                             .answers = view.answers};
  if (view.done != fmt::format("node {}", report_.node)) others.done = view.done;
  if (view.state == State::kEnding) others.failed = view.failure;
  return others;
}

void Launcher::tasks_are(const launch::GroupState& tasks) {
  report_.tasks = tasks;
  if (report_.stop_signal == 0) report_.stop_signal = tasks.stop_signal;
}

void Launcher::ended(NodeOutcome outcome, int stop_signal) {
  phase_ = Phase::kEnded;
  report_.state = NodeReport::State::kEnded;
  report_.outcome = std::move(outcome);
  if (report_.stop_signal == 0) report_.stop_signal = stop_signal;
}

void Launcher::stop(int signal, double now) {
  stop_code_ = stop_until_ ? 128 + signal : kExitTerminated;
  stop_until_ = stop_until_ ? now : now + kStopTime;
  // The tasks of the others may still run.
  report_.tasks.kills |= signal == SIGINT && report_.stop_signal != 0;
  if (report_.stop_signal == 0) report_.stop_signal = signal;
}

// Another round cannot begin before the launcher has said so: rendezvous.h.
void Launcher::hear(const RunView& view) {
  if (view.state != State::kGathering) return;
  report_.heard_rendezvous = view.rendezvous;
  report_.heard_round = view.last_round;
}

Launcher::Next Launcher::leave(int exit_code) {
  exit_code_ = exit_code;
  report_.state = NodeReport::State::kLeaving;
  return Next::kLeave;
}

std::string Launcher::awaited(const RunView& view,
                              const std::optional<RendezvousLoss>& loss) const {
  std::string text = phase_ == Phase::kHearing   ? "the rendezvous"
                     : phase_ == Phase::kJoining ? "the other machines"
                                                 : "the tasks of the other machines to end";
  if (!view.missing.empty()) text = fmt::format("{}", fmt::join(view.missing, ", "));
  if (!loss) return text;
  const std::string reason =
      fmt::format("at {}, which the launcher of node 0 serves: {}", rendezvous_, loss->reason);
  if (phase_ == Phase::kHearing) return text + " " + reason;
  return fmt::format("{}; no contact with the rendezvous {}", text, reason);
}

}  // namespace muster::inline v0_1::nodes
