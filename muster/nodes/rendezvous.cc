#include "muster/nodes/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/exit_code.h"
#include "muster/base/printable.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::nodes {
namespace {

using State = RunView::State;
using plan::Membership;

constexpr std::size_t kKeptLines = 100;  // a launcher hears of the last ones

plan::Caller caller_of(uint64_t process, int node) {
  return {.task = fmt::format("node:{}", node), .incarnation = process};
}

// The first flag that differs, on both sides; nothing when none does.
std::optional<std::pair<std::string, std::string>> different_flag(
    const std::vector<std::string>& first, const std::vector<std::string>& other) {
  for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
    const std::string a = i < first.size() ? first[i] : "(nothing)";
    const std::string b = i < other.size() ? other[i] : "(nothing)";
    if (a != b) return std::pair(a, b);
  }
  return std::nullopt;
}

}  // namespace

Rendezvous::Rendezvous(RendezvousOptions options, double now)
    : options_(std::move(options)),
      members_(options_.membership, now),
      budget_(options_.restarts),
      settled_(now),
      until_(now + options_.join_timeout) {}

std::string Rendezvous::name_of(int node) const {
  const auto found = nodes_.find(node);
  const std::string host = found != nodes_.end() ? found->second.report.host : "";
  return host.empty() ? fmt::format("node {}", node) : fmt::format("node {} ({})", node, host);
}

std::optional<Error> Rendezvous::contradiction(const NodeReport& report) const {
  const NodeReport& first = options_.first;
  const std::string who = fmt::format("node {} ({})", report.node, printable(report.host));
  const std::string holder = fmt::format("node 0 ({})", first.host);
  const auto flag = [](const NodeReport& one) {
    const std::string least = one.least > 0 ? fmt::format("{}:", one.least) : "";
    return fmt::format("--nodes={}/{}{}", one.node, least, one.nodes);
  };
  if (report.nodes != first.nodes || report.least != first.least || report.node < 0 ||
      report.node >= first.nodes) {
    return invalid_argument(
        fmt::format("{} was started with {}, and {} with {}", who, flag(report), holder,
                    flag(first)),
        "the number after the slash is that of all machines; the number before it counts them from "
        "0");
  }
  if (report.job_id != first.job_id) {
    const auto job = [](const std::string& id) {
      return id.empty() ? "a job without a name" : fmt::format("job '{}'", printable(id));
    };
    return invalid_argument(fmt::format("{} belongs to {}, and the rendezvous of {} to {}", who,
                                        job(report.job_id), holder, job(first.job_id)),
                            "set MUSTER_JOB_ID to the same name on all machines, and use another "
                            "port for each run");
  }
  if (const auto differ = different_flag(first.flags, report.flags)) {
    return invalid_argument(
        fmt::format("{} was started with {}, and {} with {}", who, printable(differ->second),
                    holder, printable(differ->first)),
        "give the same options and the same program with the same arguments on "
        "all machines; only --nodes differs");
  }
  return std::nullopt;
}

RunView Rendezvous::report(uint64_t process, const NodeReport& report, double now) {
  RunView refused{.rendezvous = options_.id};
  if ((refused.refused = contradiction(report))) return refused;
  const plan::Caller caller = caller_of(process, report.node);
  const int64_t first_line = next_line();
  switch (members_.join(caller, now)) {
    case Membership::Admission::kTooEarly:
      refused.missing = {
          fmt::format("the end of another launcher that is {}", name_of(report.node))};
      return refused;
    case Membership::Admission::kRefused:
      refused.refused = invalid_argument(
          fmt::format("another launcher is node {} already: one on {}, and now one on {}",
                      report.node, printable(nodes_[report.node].report.host),
                      printable(report.host)),
          "give each machine a number of its own: --nodes=0/N, --nodes=1/N, ...");
      return refused;
    case Membership::Admission::kRestarted:
      lose(report.node, "its launcher was started again", now);
      break;
    case Membership::Admission::kAdmitted:
      settled_ = now;
      break;
    case Membership::Admission::kKnown:
      break;
  }
  if (nodes_[report.node].process != process) nodes_[report.node].first_line = first_line;
  note(process, report, now);
  return look(process, report.node, now);
}

void Rendezvous::note(uint64_t process, const NodeReport& report, double now) {
  nodes_[report.node].report = report;
  nodes_[report.node].process = process;
  const bool stops = report.stop_signal != 0 && stop_signal_ == 0 && !leaving_.contains(process);
  if (stops && state_ != State::kOver) {
    if (may_leave(report.node)) {
      leaving_[process] = 128 + report.stop_signal;
      say(name_of(report.node) + " was told to stop: it leaves the run, which continues");
    } else {
      stop_signal_ = report.stop_signal;
      say(fmt::format("{} was told to stop: stopping the run on all machines",
                      name_of(report.node)));
      if (state_ == State::kRunning) state_ = State::kEnding;
    }
  }
  // A machine that leaves the others to go on kills its own tasks alone.
  if (report.tasks.kills && stop_signal_ != 0 && !kills_ && !leaving_.contains(process)) {
    kills_ = true;
    say(name_of(report.node) + " got Ctrl-C again: killing the tasks of all machines");
  }
  if (report.state == NodeReport::State::kLeaving) {
    (void)members_.goodbye(caller_of(process, report.node));
    if (state_ != State::kOver) lose(report.node, "its launcher has ended", now);
  }
  enter_round(process, report);
  const auto part = parts_.find(report.node);
  if (part == parts_.end() || part->second.process != process || report.round != round_ ||
      report.entry != part->second.entry)
    return;
  if (report.cut_off && may_be_lost(report.node) && !part->second.outcome)
    return leave_round(report.node, now, "", /*may_be_here_again=*/false);
  if (report.state == NodeReport::State::kRunning) take_state(part->second, report.tasks, now);
  if (!report.tasks.failed.empty())
    begin_ending(fmt::format("node {}: {}", report.node, report.tasks.failed));
  if (report.state == NodeReport::State::kEnded) finish(report.node, report.outcome, now);
}

bool Rendezvous::connected(uint64_t process, int node) {
  const plan::Caller caller = caller_of(process, node);
  if (!members_.is_here(caller)) return false;
  members_.connected(caller);
  return true;
}

void Rendezvous::disconnected(uint64_t process, int node, double now) {
  members_.disconnected(caller_of(process, node), now);
}

RunView Rendezvous::look(uint64_t process, int node, double now) {
  advance(now);
  if (members_.find(caller_of(process, node)) == nullptr) return {.rendezvous = options_.id};
  return view_of(process, node);
}

bool Rendezvous::all_left() const { return state_ == State::kOver && members_.here() == 0; }

void Rendezvous::lose(int node, const std::string& why, double now) {
  settled_ = now;
  const std::string text = fmt::format("{} was lost: {}", name_of(node), why);
  const bool left = leaving_.contains(nodes_[node].process);
  if (state_ == State::kGathering) return left ? void() : say(text);
  const auto part = parts_.find(node);
  if (state_ == State::kOver || part == parts_.end()) return;
  if (may_be_lost(node) && (!part->second.outcome || is_spared(node, part->second)))
    return leave_round(node, now, left ? "" : text, /*may_be_here_again=*/true);
  // A machine that has ended its part of the round takes nothing along.
  if (part->second.outcome) return;
  begin_ending(text);
  finish(node, {.exit_code = kExitRestart, .rank = 1, .reasons = {text}}, now);
}

void Rendezvous::begin_ending(const std::string& failure) {
  if (state_ != State::kRunning) return;
  state_ = State::kEnding;
  failure_ = failure;
}

void Rendezvous::finish(int node, NodeOutcome outcome, double now) {
  Part& part = parts_.at(node);
  if (part.outcome) return;
  if (may_be_lost(node) && leaving_.contains(part.process))
    return leave_round(node, now, "", /*may_be_here_again=*/false);
  const bool spared = may_be_lost(node) && outcome.rank == launch::kSparedRank;
  if (spared) {
    part.left = 0;
    say(fmt::format("{}: none of its tasks is left, and the run continues without it", part.name));
  } else if (outcome.rank > 0 || outcome.address_in_use) {
    begin_ending(fmt::format(
        "node {}: {}", node,
        outcome.reasons.empty() ? "a port of its tasks is in use" : outcome.reasons.front()));
  }
  part.outcome = std::move(outcome);
  part.order = ended_++;
  look_whether_enough_are_left(now);
}

void Rendezvous::advance(double now) {
  for (const plan::Failure& lost : members_.find_lost(now))
    lose(std::stoi(lost.task.substr(lost.task.find(':') + 1)), lost.reason, now);
  until_ += members_.take_standstill();
  if (state_ == State::kGathering) return gather(now);
  answer_asks(now);
  look_whether_enough_are_left(now);
  const auto ended = [](const auto& item) { return item.second.outcome.has_value(); };
  if (state_ != State::kOver && std::ranges::all_of(parts_, ended)) conclude(now);
}

bool Rendezvous::is_ready(int node) const {
  if (!members_.is_here(fmt::format("node:{}", node))) return false;
  const NodeReport& report = nodes_.at(node).report;
  if (leaving_.contains(nodes_.at(node).process)) return false;
  const bool knows =
      round_ == 0 || (report.heard_rendezvous == options_.id && report.heard_round >= round_);
  return knows && report.state == NodeReport::State::kReady;
}

std::vector<std::string> Rendezvous::missing() const {
  std::vector<std::string> names;
  for (int node = 0; node < options_.first.nodes; ++node) {
    if (!is_ready(node)) names.push_back(name_of(node));
  }
  return names;
}

void Rendezvous::gather(double now) {
  if (stop_signal_ != 0) return end(128 + stop_signal_);
  const std::vector<std::string> names = missing();
  if (names.empty() || may_begin_without_others(now)) {
    if (now >= not_before_) begin_round(now);
    return;
  }
  if (now < until_) return;
  say(fmt::format("stopped because {} did not come within {:g} s", fmt::join(names, ", "),
                  options_.join_timeout));
  end(kExitRestart);
}

void Rendezvous::begin_round(double now) {
  failure_.clear();
  too_few_ = false;
  gone_.clear();
  ended_ = 0;
  parts_.clear();
  addresses_.clear();
  absent_.clear();
  for (int node = 0; node < options_.first.nodes; ++node) {
    addresses_.push_back(addresses_of(node));
    if (is_ready(node)) {
      parts_[node] = {.process = nodes_[node].process,
                      .name = name_of(node),
                      .addresses = addresses_.back(),
                      .entry = ++entries_,
                      .left = options_.tasks + (options_.chief && node == 0 ? 1 : 0)};
    } else {
      absent_[node] = {.since = now, .why = name_of(node) + " did not come"};
      say(name_of(node) + " is not here: the run begins without it");
    }
  }
  ++round_;
  state_ = State::kRunning;
}

std::optional<Rendezvous::Part> Rendezvous::cause() const {
  std::optional<Part> cause;
  for (const auto& [number, part] : parts_) {
    if (part.outcome->rank == 0 || is_spared(number, part)) continue;
    const auto place = [](const Part& one) { return std::pair(one.outcome->rank, one.order); };
    if (!cause || place(part) < place(*cause)) cause = part;
  }
  if (gone_.empty() || (cause && cause->outcome->rank == 1)) return cause;
  return Part{.outcome = NodeOutcome{.exit_code = kExitRestart, .rank = 1, .reasons = {gone_}}};
}

void Rendezvous::conclude(double now) {
  const std::optional<Part> first = cause();
  bool all_ok = true, address_in_use = false;
  for (const auto& [number, part] : parts_) {
    all_ok = all_ok && (part.outcome->exit_code == 0 || is_spared(number, part));
    address_in_use = address_in_use || part.outcome->address_in_use;
  }
  const int highest = first ? first->outcome->rank : 0;
  if (address_in_use && new_ports_ && stop_signal_ == 0) {
    new_ports_ = false;
    say(launch::ports_in_use("these machines"));
    state_ = State::kGathering;
    until_ = now + options_.join_timeout;
    return;
  }
  if (stop_signal_ != 0 && highest != 1) return end(all_ok ? 0 : 128 + stop_signal_);
  if (!first) return end(0);
  const int code = first->outcome->exit_code;
  say_cause(*first);
  stop_signal_ != 0 || !plan::asks_for_restart(code) ? end(code) : restart(code, now);
}

void Rendezvous::say_cause(const Part& part) {
  last_cause_ = part.name;
  for (const std::string& reason : part.outcome->reasons) {
    const bool first = &reason == part.outcome->reasons.data();
    // The loss of a machine names it already.
    const bool is_named = part.name.empty() || reason.starts_with(part.name);
    if (first) last_cause_ = is_named ? reason : part.name + ": " + reason;
    say(first ? last_cause_ : reason);
  }
  if (first_cause_.empty()) first_cause_ = last_cause_;
}

void Rendezvous::restart(int code, double now) {
  const std::optional<double> pause = budget_.take(now);
  if (!pause) {
    if (options_.restarts.restarts > 0) {
      say(fmt::format("not started again: --restart={} allows no more restarts within {:g} s",
                      options_.restarts.restarts, options_.restarts.window));
    }
    return end(code);
  }
  say(launch::starting_again(*pause, budget_.used(now), options_.restarts.restarts));
  state_ = State::kGathering;
  not_before_ = now + *pause;
  until_ = not_before_ + options_.join_timeout;
}

void Rendezvous::end(int code) {
  // What failed first is the cause of the end, whatever came after it.
  if (code != 0 && first_cause_ != last_cause_)
    say("the first failure of this run: " + first_cause_);
  exit_code_ = code;
  state_ = State::kOver;
}

void Rendezvous::say(std::string line) {
  lines_.push_back(std::move(line));
  if (lines_.size() <= kKeptLines) return;
  lines_.erase(lines_.begin());
  ++first_line_;
}

RunView Rendezvous::view_of(uint64_t process, int number) const {
  RunView view{.state = state_,
               .rendezvous = options_.id,
               .new_ports = new_ports_,
               .stop_signal = stop_signal_,
               .kills = kills_,
               .exit_code = exit_code_,
               .first_line = first_line_,
               .lines = lines_};
  if (const auto node = nodes_.find(number);
      node != nodes_.end() && node->second.process == process) {
    view.first_line = std::clamp(node->second.first_line, first_line_, next_line());
    view.lines.erase(view.lines.begin(), view.lines.begin() + (view.first_line - first_line_));
  }
  if (state_ == State::kOver) return view;
  const auto part = parts_.find(number);
  const bool takes_part = part != parts_.end() && part->second.process == process;
  if (state_ == State::kGathering || !takes_part) {
    if (const auto left = leaving_.find(process); left != leaving_.end()) {
      view.state = State::kOver;
      view.exit_code = left->second;
      return view;
    }
    view.state = State::kGathering;
    view.missing = state_ == State::kGathering
                       ? missing()
                       : std::vector<std::string>{"the end of what the other machines run"};
    if (state_ == State::kGathering || elastic()) view.last_round = round_;
    return view;
  }
  view.round = round_;
  view.entry = part->second.entry;
  view.joins = part->second.joins;
  view.new_ports = new_ports_ && !view.joins;
  view.addresses = addresses_;
  view.first_answer = part->second.first_answer;
  view.answers = part->second.answers;
  view.too_few = too_few_;
  for (const auto& [other, of_node] : parts_) {
    if (of_node.outcome && of_node.outcome->rank == 0) view.done = fmt::format("node {}", other);
  }
  view.job_id = options_.job_id;
  view.run_id = fmt::format("{:016x}", options_.id + static_cast<uint64_t>(round_));
  view.failure = failure_;
  return view;
}

}  // namespace muster::inline v0_1::nodes
