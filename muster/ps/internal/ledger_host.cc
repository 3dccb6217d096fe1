#include "muster/ps/internal/ledger_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {
namespace {

constexpr double kLongestWait = 5;  // seconds
constexpr int kChief = 0;

// The error that the others receive for a task that cannot continue. A mistake of the program stays
// one: starting again does not help. Nor is there a run that they could join again, as after
// PeerLost.
Error failure_of(const ledger::Fail& failed) {
  const Error& own = failed.error;
  const bool mistake =
      own.kind() == ErrorKind::kInvalidArgument || own.kind() == ErrorKind::kNotFound;
  return Error(
      mistake ? ErrorKind::kInvalidArgument : ErrorKind::kUnavailable,
      fmt::format("{} failed {}: {}: {}", failed.task, plan::place_of(failed.phase, failed.step),
                  to_string(own.kind()), own.message()),
      own.hint());
}

}  // namespace

LedgerHost::LedgerHost(Options options)
    : options_(std::move(options)),
      ledger_(options_.ledger),
      members_({.heartbeat_timeout = options_.heartbeat_timeout}, now()) {}

const std::string& LedgerHost::task(int rank) const {
  if (rank < 0 || rank >= options_.ledger.workers) {
    throw invalid_argument(
        fmt::format("there is no worker of rank {} among {}", rank, options_.ledger.workers),
        "give every task the same cluster in TF_CONFIG");
  }
  return options_.tasks[static_cast<size_t>(rank)];
}

void LedgerHost::check_failure() const {
  if (failure_) throw *failure_;
}

void LedgerHost::check_generation(const Asker& who) const {
  if (who.generation == ledger_.generation()) return;
  throw Error(
      ErrorKind::kPeerLost,
      fmt::format("the run began again from a checkpoint (generation {}, and this task is in "
                  "generation {})",
                  ledger_.generation(), who.generation));
}

LedgerHost::Lock LedgerHost::enter(const Asker& who) {
  Lock lock(*this);
  check_failure();
  if (who.rank >= 0) (void)members_.heartbeat(caller(who), now());
  return lock;
}

LedgerHost::Lock LedgerHost::enter_run(const Asker& who) {
  Lock lock = enter(who);
  check_generation(who);
  return lock;
}

LedgerHost::Lock LedgerHost::enter_part(const Asker& who) {
  Lock lock = enter_run(who);
  if (!is_here(who)) throw taken_for_lost(who.rank);
  return lock;
}

void LedgerHost::wait(Lock& lock, double seconds, const std::function<bool()>& ready) {
  const TimePoint deadline =
      options_.clock->now() + from_seconds(std::clamp(seconds, 0.0, kLongestWait));
  // Some awaited events come with time alone, so it looks now and then.
  const auto over = [&] { return closed_ || failure_ || ready(); };
  for (bool done = over(); !done && options_.clock->now() < deadline;)
    done = options_.clock->wait_for(lock, changed_, from_seconds(options_.look), over);
  check_failure();
}

Done LedgerHost::answer(const Asker&, const ledger::Fail& failed) {
  fail(failure_of(failed));
  return {};
}

Done LedgerHost::answer(const Asker& who, const ledger::Bye&) {
  const Lock lock(*this);
  // A worker that never joined says it too.
  if (members_.find(task(who.rank)) == nullptr) (void)members_.join(caller(who), now());
  if (members_.goodbye(caller(who))) release(task(who.rank));
  return {};
}

ledger::Wanted LedgerHost::answer(const Asker& who, const ledger::WantSave& wanted) {
  using State = ledger::Wanted::State;
  const Lock lock = enter_run(who);
  if (refused_) return {State::kNever};
  if (saved_ && *saved_ >= wanted.commits) return {State::kSaved};
  wanted_ = std::max(wanted_.value_or(0), wanted.commits);
  return {State::kWaits};
}

Done LedgerHost::answer(const Asker& who, const ledger::Part&) {
  const Lock lock(*this);
  if (!members_.goodbye(caller(who))) return {};
  const plan::Membership::Member& left = *members_.find(task(who.rank));
  if (!finished_) {
    log::info(fmt::format("{} has disconnected, last message {}{}", task(who.rank),
                          plan::place_of(left.place.phase, left.place.step), others_go_on()));
  }
  release(task(who.rank));
  return {};
}

ledger::Beaten LedgerHost::answer(const Asker& who, const ledger::Beat& beat) {
  const Lock lock = enter(who);
  // A worker that was taken for lost, but lives, is notified when it asks for a step.
  (void)members_.heartbeat(caller(who), now(), plan::MemberPlace{beat.phase, beat.step});
  // What it said before counts for nothing: it may have been asked to stop since.
  if (who.rank == kChief && wanted_ && is_here(who)) {
    refused_ = !beat.saves;
    saved_ = who.generation == ledger_.generation() ? beat.saved : std::nullopt;
  }
  const bool told = who.rank == kChief && !(saved_ && wanted_ && *saved_ >= *wanted_);
  return {.wanted = told ? wanted_ : std::nullopt};
}

Done LedgerHost::answer(const Asker& who, const ledger::Begin& begin) {
  const Lock lock = enter(who);
  ledger_.begin({.generation = who.generation,
                 .step = begin.step,
                 .last_step = begin.last_step,
                 .positions = begin.positions},
                now());
  let_go_ = false;
  refused_ = false;
  wanted_.reset();
  saved_.reset();
  return {};
}

Done LedgerHost::answer(const Asker& who, const ledger::Finish& finish) {
  const Lock lock = enter(who);
  finished_ = true;
  finished_at_ = finish.step;
  return {};
}

ledger::Place LedgerHost::answer(const Asker& who, const ledger::Status&) {
  const Lock lock = enter(who);
  return {.generation = ledger_.generation(), .step = ledger_.step(), .finished = finished_};
}

ledger::Resolved LedgerHost::answer(const Asker& who, const ledger::Resolve& resolve) {
  const Lock lock = enter({});  // a server speaks, and not the worker
  // Another run has other tickets, with the same numbers.
  const bool known = ledger_.generation() == who.generation;
  const bool committed = known && ledger_.committed(resolve.rank, resolve.ticket);
  // A server has dropped its gradients: they cannot count any more.
  if (known && !committed && resolve.gone) ledger_.abandon(resolve.rank, resolve.ticket);
  return {.committed = committed};
}

Done LedgerHost::answer(const Asker& who, const ledger::Abandon&) {
  const Lock lock = enter_run(who);
  // A worker that is gone has no claims any more.
  if (is_here(who)) ledger_.abandon(who.rank);
  return {};
}

net::Truth LedgerHost::answer(const Asker& who, const ledger::Resume&) {
  const Lock lock = enter_run(who);
  // It was resumed already if its task was taken for lost; a present pause belongs to another.
  const bool here = is_here(who);
  const bool held = here && ledger_.paused();
  if (here) ledger_.resume();
  return {.holds = held};
}

Done LedgerHost::answer(const Asker& who, const ledger::EndInput&) {
  const Lock lock = enter_part(who);
  ledger_.end_input(who.rank);
  return {};
}

Done LedgerHost::answer(const Asker& who, const ledger::Stop& stop) {
  const Lock lock = enter_part(who);
  ledger_.stop(stop.why);
  return {};
}

Done LedgerHost::answer(const Asker& who, const ledger::LetGo&) {
  const Lock lock = enter_part(who);
  let_go_ = true;
  return {};
}

ledger::Cut LedgerHost::answer(const Asker& who, const ledger::Pause&) {
  const Lock lock = enter_part(who);
  ledger_.pause();
  return {.step = ledger_.step(),
          .commits = ledger_.commits(),
          .positions = ledger_.positions(),
          .ended = ledger_.ended(),
          .round = round()};
}

ledger::Joined LedgerHost::answer(const Asker& who, const ledger::Join& join) {
  Lock lock = enter(who);
  if (members_.join(caller(who), now()) != plan::Membership::Admission::kKnown) {
    if (who.rank == kChief) ledger_.resume();
    ledger_.join(who.rank, now());
  }
  using State = ledger::Joined::State;
  wait(lock, join.wait, [&] { return ledger_.begun() || finished_; });
  // A run that had ended before it began here has made no step that the ledger would know of.
  if (finished_) return {.state = State::kFinished, .step = std::max(ledger_.step(), finished_at_)};
  if (!ledger_.begun()) return {.state = State::kWaiting};
  return {.state = State::kBegun,
          .generation = ledger_.generation(),
          .step = ledger_.step(),
          .position = ledger_.position(who.rank)};
}

ledger::Claimed LedgerHost::answer(const Asker& who, const ledger::Claim& asked) {
  using State = StepLedger::Claim::State;
  Lock lock = enter(who);
  StepLedger::Claim claim;
  wait(lock, asked.wait, [&] {
    check_generation(who);
    if (!is_here(who)) return true;
    claim = ledger_.claim(who.rank, now());
    return claim.state != State::kWait;
  });
  if (!is_here(who)) throw taken_for_lost(who.rank);
  if (finished_) claim.state = State::kOver;
  ledger::Claimed answer{.state = claim.state, .ticket = claim.ticket, .step = ledger_.step()};
  if (claim.state == State::kGranted) answer.round = round();
  if (claim.waits_for >= 0) answer.waits_for = task(claim.waits_for);
  return answer;
}

ledger::Committed LedgerHost::answer(const Asker& who, const ledger::Commit& asked) {
  using State = StepLedger::Commit::State;
  Lock lock = enter(who);
  StepLedger::Commit commit;
  wait(lock, asked.wait, [&] {
    check_generation(who);
    commit = ledger_.commit(who.rank, asked.ticket, asked.position, now(), asked.looked);
    return commit.state != State::kWait;
  });
  if (commit.state == State::kLost)
    throw taken_for_lost(who.rank).with_detail("its step counts for nothing");
  ledger::Committed answer{.state = commit.state, .step = commit.step};
  if (commit.state == State::kAccepted) {
    (void)members_.heartbeat(caller(who), now(),
                             plan::MemberPlace{plan::Phase::kTraining, commit.step});
    rows_ += asked.rows;
    // With the ticket of the worker's next step, if that may begin now.
    if (asked.next && !finished_ && options_.ledger.aggregate == 0 && is_here(who)) {
      const StepLedger::Claim claim = ledger_.claim(who.rank, now());
      if (claim.state == StepLedger::Claim::State::kGranted) answer.next = claim.ticket;
    }
  }
  answer.rows = rows_;
  return answer;
}

Error LedgerHost::taken_for_lost(int rank) const {
  return Error(ErrorKind::kPeerLost,
               fmt::format("{} was taken for lost: nothing was heard of it for {} s, or its "
                           "connections had ended",
                           task(rank), options_.heartbeat_timeout));
}

ledger::Standing LedgerHost::answer(const Asker& who, const ledger::Settled& asked) {
  Lock lock = enter_run(who);
  const bool chief = who.rank == kChief;
  // Workers stay until the chief has saved: were a server lost before, all would go back to the
  // checkpoint before, and their data would be wanted again.
  const auto ready = [&] { return finished_ || (chief ? ledger_.settled(now()) : let_go_); };
  wait(lock, asked.wait, ready);
  // The chief saves for the last time now: a later worker has nothing to do any more.
  if (chief && ledger_.settled(now())) ledger_.stop(ledger_.why(now()));
  return {.settled = ready(),
          .over = ledger_.settled(now()),
          .step = ledger_.step(),
          .why = ledger_.why(now()),
          .unfinished = names(ledger_.unfinished()),
          .awaited = names(ledger_.awaited(now()))};
}

ledger::Present LedgerHost::answer(const Asker& who, const ledger::Others& asked) {
  Lock lock = enter(who);
  std::vector<int> here;
  wait(lock, asked.wait, [&] {
    here.clear();
    for (int rank = 0; rank < options_.ledger.workers; ++rank) {
      if (rank != who.rank && members_.is_here(task(rank))) here.push_back(rank);
    }
    return here.empty();
  });
  return {.tasks = names(here)};
}

ledger::Measured LedgerHost::answer(const Asker& who, const ledger::Measures&) {
  const Lock lock = enter(who);
  ledger::Measured all{.dropped = ledger_.dropped()};
  for (int rank = 0; rank < options_.ledger.workers; ++rank) {
    const plan::StalenessSummary staleness = ledger_.staleness(rank);
    if (staleness.steps > 0) all.tasks[task(rank)] = staleness;
  }
  return all;
}

std::optional<StepLedger::Round> LedgerHost::round() const {
  if (ledger_.last_round().number == 0) return std::nullopt;
  return ledger_.last_round();
}

std::optional<StepLedger::Round> LedgerHost::last_round() const {
  const std::lock_guard lock(mutex_);
  return round();
}

std::vector<std::string> LedgerHost::names(const std::vector<int>& ranks) const {
  std::vector<std::string> all;
  for (const int rank : ranks) all.push_back(task(rank));
  return all;
}

bool LedgerHost::committed(int rank, int64_t ticket) {
  const std::lock_guard lock(mutex_);
  return ledger_.committed(rank, ticket);
}

void LedgerHost::release(const std::string& task) {
  const auto found = std::ranges::find(options_.tasks, task);
  const int rank = static_cast<int>(found - options_.tasks.begin());
  ledger_.leave(rank, now());
  // The chief's unfinished save is dropped.
  if (rank == kChief) ledger_.resume();
}

void LedgerHost::release_lost(const plan::Failure& lost) {
  if (!finished_) log::warning(lost.describe() + others_go_on());
  release(lost.task);
}

void LedgerHost::leave(int rank, uint64_t incarnation) {
  const Lock lock(*this);
  if (const auto lost = members_.lose({task(rank), incarnation}, "its connections ended"))
    release_lost(*lost);
}

void LedgerHost::fail(const Error& error) {
  const Lock lock(*this);
  if (!failure_) failure_ = error;
}

std::optional<Error> LedgerHost::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool LedgerHost::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void LedgerHost::wait_for_goodbyes(double seconds) {
  std::unique_lock lock(mutex_);
  options_.clock->wait_for(lock, changed_, from_seconds(seconds), [&] {
    return closed_ || std::ranges::all_of(options_.tasks, [this](const std::string& task) {
             return members_.find(task) != nullptr && !members_.is_here(task);
           });
  });
}

void LedgerHost::look() {
  const Lock lock(*this);
  for (const plan::Failure& lost : members_.find_lost(now())) release_lost(lost);
  ledger_.close_round(now());
}

void LedgerHost::close() {
  const Lock lock(*this);
  closed_ = true;
}

}  // namespace muster::inline v0_1::ps
