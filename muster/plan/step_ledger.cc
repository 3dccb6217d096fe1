#include "muster/plan/step_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {
namespace {

constexpr size_t kStalenessBins = 1024;

}  // namespace

StepLedger::StepLedger(Options options) : options_(options) {
  if (options_.workers < 1)
    throw invalid_argument(fmt::format("a run of {} workers", options_.workers));
  workers_.resize(static_cast<size_t>(options_.workers));
}

StepLedger::Worker& StepLedger::at(int worker) {
  return const_cast<Worker&>(std::as_const(*this).at(worker));
}

const StepLedger::Worker& StepLedger::at(int worker) const {
  if (worker < 0 || worker >= options_.workers) {
    throw invalid_argument(
        fmt::format("there is no worker of rank {} among {}", worker, options_.workers),
        "give every task the same cluster in TF_CONFIG");
  }
  return workers_[static_cast<size_t>(worker)];
}

void StepLedger::begin(Start start, double now) {
  if (start.generation <= generation_) {
    throw invalid_argument(
        fmt::format("the run is in generation {}, and generation {} was to begin", generation_,
                    start.generation));
  }
  if (!start.positions.empty() && start.positions.size() != workers_.size()) {
    throw invalid_argument(
        fmt::format("{} positions for {} workers", start.positions.size(), workers_.size()));
  }
  generation_ = start.generation;
  step_ = start.step;
  last_step_ = start.last_step;
  commits_ = 0;
  last_round_ = {};
  dropped_ = 0;
  stopped_.clear();
  paused_ = false;
  for (size_t w = 0; w < workers_.size(); ++w) {
    const bool present = workers_[w].present;
    workers_[w] = {.present = present, .absent_since = now};
    if (!start.positions.empty()) workers_[w].position = start.positions[w];
  }
}

void StepLedger::join(int worker, double /*now*/) {
  Worker& w = at(worker);
  w.present = false;
  // A worker that comes later starts at the slowest clock: otherwise it would hold up all others
  // until it had caught up.
  const int slow = slowest();
  if (slow >= 0) w.clock = std::max(w.clock, at(slow).clock);
  w.present = true;
  abandon(worker);
}

void StepLedger::leave(int worker, double now) {
  Worker& w = at(worker);
  w.present = false;
  w.absent_since = now;
  abandon(worker);
}

int64_t StepLedger::claims() const {
  return std::ranges::count_if(workers_, [](const Worker& w) { return w.ticket != 0; });
}

int StepLedger::slowest() const {
  int slowest = -1;
  for (int w = 0; w < options_.workers; ++w) {
    if (active(at(w)) && (slowest < 0 || at(w).clock < at(slowest).clock)) slowest = w;
  }
  return slowest;
}

StepLedger::Claim StepLedger::claim(int worker, double now) {
  Worker& w = at(worker);
  abandon(worker);
  if (!begun()) return {};
  if (over(now) || w.ended || !w.present) return {.state = Claim::State::kOver};
  // Claims of others may still fail, and then a step is left to make.
  if (options_.aggregate == 0 && last_step_ && step_ + claims() >= *last_step_) return {};
  if (options_.max_staleness) {
    const int slow = slowest();
    if (slow >= 0 && w.clock - at(slow).clock > *options_.max_staleness) return {.waits_for = slow};
  }
  w.ticket = next_ticket_++;
  w.commits_at_look = commits_;
  w.round = commits_;
  return {.state = Claim::State::kGranted, .ticket = w.ticket};
}

StepLedger::Commit StepLedger::commit(int worker, int64_t ticket, const std::string& position,
                                      double now, std::optional<int64_t> looked) {
  Worker& w = at(worker);
  if (ticket != 0 && w.committed == ticket)
    return {.state = Commit::State::kAccepted, .step = w.committed_step};
  if (ticket == 0 || w.ticket != ticket) return {};
  if (looked) w.commits_at_look = std::clamp<int64_t>(*looked, 0, commits_);
  if (options_.aggregate > 0) return commit_to_round(w, ticket, position, now);
  if (paused_) return {.state = Commit::State::kWait};
  const int64_t stale = commits_ - w.commits_at_look;
  note_step(w, ticket, position);
  ++commits_;
  w.committed_step = ++step_;
  return {.state = Commit::State::kAccepted, .step = step_, .staleness = stale};
}

void StepLedger::note_step(Worker& w, int64_t ticket, const std::string& position) {
  w.ticket = 0;
  w.contributed = false;
  w.committed = ticket;
  w.position = position;
  ++w.steps;
  ++w.clock;
  const int64_t stale = commits_ - w.commits_at_look;
  if (w.staleness.empty()) w.staleness.assign(kStalenessBins, 0);
  ++w.staleness[std::min(static_cast<size_t>(stale), kStalenessBins - 1)];
  w.staleness_sum += stale;
  w.staleness_max = std::max(w.staleness_max, stale);
}

StepLedger::Commit StepLedger::commit_to_round(Worker& w, int64_t ticket,
                                               const std::string& position, double now) {
  if (!w.contributed) {
    if (w.round != commits_) {
      // Its examples were seen, and count for nothing.
      w.ticket = 0;
      w.position = position;
      ++dropped_;
      return {.state = Commit::State::kDropped, .step = step_};
    }
    if (paused_) return {.state = Commit::State::kWait};
    w.contributed = true;
    w.pending = position;
  }
  close_round(now);
  if (w.committed != ticket) return {.state = Commit::State::kWait};
  return {.state = Commit::State::kAccepted, .step = w.committed_step};
}

int64_t StepLedger::needed(double now) const {
  // When no worker begins a step any more, the steps that were begun are the last ones.
  if (!stopped_.empty()) return std::max<int64_t>(1, claims());
  const int64_t expected =
      std::ranges::count_if(workers_, [&](const Worker& w) { return has_more(w, now); });
  return std::max<int64_t>(1, std::min<int64_t>(options_.aggregate, expected));
}

void StepLedger::close_round(double now) {
  if (options_.aggregate == 0 || paused_) return;
  const auto waiting =
      std::ranges::count_if(workers_, [](const Worker& w) { return w.contributed; });
  if (waiting == 0 || waiting < needed(now)) return;
  Round round{.generation = generation_, .number = commits_ + 1};
  for (int i = 0; i < options_.workers; ++i) {
    Worker& w = at(i);
    if (!w.contributed) continue;
    round.parts.push_back({i, w.ticket});
    w.committed_step = step_ + 1;
    note_step(w, w.ticket, w.pending);
  }
  ++commits_;
  ++step_;
  last_round_ = std::move(round);
}

void StepLedger::abandon(int worker, int64_t ticket) {
  if (ticket != 0 && at(worker).ticket != ticket) return;
  at(worker).ticket = 0;
  at(worker).contributed = false;
}

void StepLedger::end_input(int worker) {
  abandon(worker);
  at(worker).ended = true;
}

void StepLedger::stop(std::string why) {
  if (stopped_.empty()) stopped_ = why.empty() ? "stopped" : std::move(why);
}

bool StepLedger::over(double now) const {
  if (!stopped_.empty() || (last_step_ && step_ >= *last_step_)) return true;
  return std::ranges::none_of(workers_, [&](const Worker& w) { return has_more(w, now); });
}

bool StepLedger::has_more(const Worker& w, double now) const {
  // A lost worker may come back for the rest of its data, within limits.
  return !w.ended && (w.present || now - w.absent_since < options_.rejoin_timeout);
}

bool StepLedger::settled(double now) const { return over(now) && claims() == 0; }

std::string StepLedger::why(double now) const {
  if (!over(now)) return "";
  if (!stopped_.empty()) return stopped_;
  return last_step_ && step_ >= *last_step_ ? "max_steps" : "end of input";
}

std::vector<int> StepLedger::unfinished() const {
  std::vector<int> all;
  for (int w = 0; w < options_.workers; ++w) {
    if (!at(w).present && !at(w).ended) all.push_back(w);
  }
  return all;
}

std::vector<int> StepLedger::awaited(double now) const {
  const bool is_over = over(now);
  std::vector<int> all;
  for (int w = 0; w < options_.workers; ++w) {
    if (is_over ? at(w).ticket != 0 : has_more(at(w), now)) all.push_back(w);
  }
  return all;
}

std::vector<bool> StepLedger::ended() const {
  std::vector<bool> all;
  for (const Worker& worker : workers_) all.push_back(worker.ended);
  return all;
}

std::vector<std::string> StepLedger::positions() const {
  std::vector<std::string> all;
  for (const Worker& w : workers_) all.push_back(w.position);
  return all;
}

StalenessSummary StepLedger::staleness(int worker) const {
  const Worker& w = at(worker);
  StalenessSummary summary{.steps = w.steps, .max = w.staleness_max};
  if (w.steps == 0) return summary;
  summary.mean = static_cast<double>(w.staleness_sum) / static_cast<double>(w.steps);
  // The smallest number that 99 % of the steps do not exceed.
  int64_t rest = w.steps - w.steps / 100;
  for (size_t bin = 0; bin < w.staleness.size() && rest > 0; ++bin) {
    rest -= w.staleness[bin];
    summary.p99 = static_cast<int64_t>(bin);
  }
  return summary;
}

}  // namespace muster::inline v0_1::plan
