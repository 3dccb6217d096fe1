// What machines of an elastic run may miss, and how they come again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/net/port.h"
#include "muster/nodes/rendezvous.h"

namespace muster::inline v0_1::nodes {
namespace {

using State = RunView::State;

// Seconds after which a lost task is not lost because of a failure that ends the run, such as the
// chief's, which another launcher reports.
constexpr double kAskPause = 0.5;

}  // namespace

bool Rendezvous::may_begin_without_others(double now) const {
  const double settled = std::min(settled_ + options_.settle_timeout, until_);
  if (!elastic() || !is_ready(0) || now < settled) return false;
  int ready = 0;
  for (const auto& [number, node] : nodes_) {
    const bool waits = leaving_.contains(node.process);
    // The tasks of a machine that is here may still run.
    if (members_.is_here(fmt::format("node:{}", number)) && !is_ready(number) && !waits)
      return false;
    ready += is_ready(number) ? 1 : 0;
  }
  return ready >= options_.first.least;
}

std::vector<std::string> Rendezvous::addresses_of(int node) const {
  const auto found = nodes_.find(node);
  if (found != nodes_.end() && !found->second.report.addresses.empty())
    return found->second.report.addresses;
  // A worker listens where it is, whatever its entry says; only the chief's address counts. The
  // entries must differ, and their host must have an address.
  const std::string host = net::split_address(nodes_.at(0).report.addresses.front()).host;
  std::vector<std::string> addresses;
  for (int task = 0; task < options_.tasks; ++task)
    addresses.push_back(net::join_address(host, 1 + node * options_.tasks + task));
  return addresses;
}

bool Rendezvous::may_leave(int node) const {
  if (!elastic() || node == 0) return false;
  int others = 0;
  if (state_ == State::kRunning) {
    for (const auto& [number, part] : parts_)
      others += number == node || leaving_.contains(part.process) ? 0 : part.left;
    return others >= options_.min_tasks;
  }
  for (const auto& [number, one] : nodes_) {
    const bool stays =
        members_.is_here(fmt::format("node:{}", number)) && !leaving_.contains(one.process);
    others += number != node && stays ? 1 : 0;
  }
  return others >= options_.first.least;
}

void Rendezvous::leave_round(int node, double now, const std::string& why, bool may_be_here_again) {
  const auto part = parts_.find(node);
  if (!why.empty()) say(why + "; the run continues without it");
  absent_[node] = {.since = now, .why = why.empty() ? part->second.name + " has left" : why};
  if (may_be_here_again && !part->second.outcome) absent_[node].part = std::move(part->second);
  parts_.erase(part);
  look_whether_enough_are_left(now);
}

void Rendezvous::enter_round(uint64_t process, const NodeReport& report) {
  const int node = report.node;
  const auto absent = absent_.find(node);
  if (!may_be_lost(node) || absent == absent_.end()) return;
  std::optional<Part>& before = absent->second.part;
  if (report.state == NodeReport::State::kRunning && !report.cut_off && before &&
      before->process == process && before->entry == report.entry && report.round == round_) {
    say(before->name + " is here again");
    parts_[node] = std::move(*before);
  } else if (is_ready(node)) {
    say(name_of(node) + " joins the run");
    parts_[node] = {.process = process,
                    .name = name_of(node),
                    .addresses = addresses_[static_cast<std::size_t>(node)],
                    .entry = ++entries_,
                    .joins = true,
                    .left = options_.tasks};
  } else {
    return;
  }
  absent_.erase(absent);
}

void Rendezvous::take_state(Part& part, const launch::GroupState& tasks, double now) {
  part.left = tasks.left.value_or(part.left);
  for (; part.first_answer < tasks.answered && !part.answers.empty(); ++part.first_answer)
    part.answers.erase(part.answers.begin());
  const int64_t known = part.first_answer + std::ssize(part.answers) + std::ssize(part.asks);
  for (int64_t ask = known - tasks.answered; ask >= 0 && ask < std::ssize(tasks.asks); ++ask)
    part.asks.push_back({.text = tasks.asks[static_cast<std::size_t>(ask)], .since = now});
}

void Rendezvous::answer_asks(double now) {
  if (!elastic() || state_ != State::kRunning) return;
  for (auto& [node, part] : parts_) {
    while (!part.asks.empty() && !leaving_.contains(part.process)) {
      Ask& ask = part.asks.front();
      if (now < ask.since + kAskPause) break;
      if (!ask.due) {
        const std::optional<double> pause = budget_.take(now);
        ask.due = now + pause.value_or(0);
        const int restarts = options_.restarts.restarts;
        const std::string then =
            !pause ? fmt::format(
                         "not started again: --restart={} allows no more restarts within "
                         "{:g} s; the run continues without it",
                         restarts, options_.restarts.window)
            : *pause > 0 ? fmt::format("starting it again in {:.1f} s ({} of {})", *pause,
                                       budget_.used(now), restarts)
                         : fmt::format("starting it again ({} of {})", budget_.used(now), restarts);
        say(fmt::format("{}: {}; {}", part.name, ask.text, then));
        if (!pause) {
          part.answers.push_back(0);
          part.asks.erase(part.asks.begin());
          continue;
        }
      }
      if (now < *ask.due) break;
      part.answers.push_back(1);
      part.asks.erase(part.asks.begin());
    }
  }
}

void Rendezvous::look_whether_enough_are_left(double now) {
  if (!elastic() || state_ != State::kRunning) return;
  int left = 0;
  for (const auto& [node, part] : parts_) left += part.left;
  const Absent* gone = nullptr;
  for (const auto& [node, absent] : absent_) {
    const bool may_come = now - absent.since <= options_.join_timeout;
    left += may_come ? options_.tasks : 0;
    if (!may_come && (gone == nullptr || absent.since < gone->since)) gone = &absent;
  }
  if (left >= options_.min_tasks) return;
  const std::string text = fmt::format("fewer than {} workers are left", options_.min_tasks);
  if (gone != nullptr) {
    gone_ = fmt::format("{}: {}, and did not come again within {:g} s", text, gone->why,
                        options_.join_timeout);
  }
  too_few_ = true;
  begin_ending(gone != nullptr ? gone_ : text);
}

bool Rendezvous::is_spared(int node, const Part& part) const {
  return elastic() && node != 0 && part.outcome && part.outcome->rank == launch::kSparedRank;
}

}  // namespace muster::inline v0_1::nodes
