#include "muster/ps/internal/ledger_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/plan/standstill.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {

using nlohmann::json;
using plan::StepLedger;

namespace {

constexpr double kLongestWait = 5;  // seconds
constexpr int kChief = 0;

plan::Phase phase_of(const json& request) {
  return static_cast<plan::Phase>(
      std::clamp(request.value("phase", 0), 0, static_cast<int>(plan::Phase::kDone)));
}

// What the others are told of a task that cannot go on. A mistake of the program stays one:
// starting again does not help. Nor is there a run that they could join again, as after PeerLost.
Error failure_of(const json& request) {
  const Error own = to_error(request.at("error"));
  const bool mistake =
      own.kind() == ErrorKind::kInvalidArgument || own.kind() == ErrorKind::kNotFound;
  return Error(mistake ? ErrorKind::kInvalidArgument : ErrorKind::kUnavailable,
               fmt::format("{} failed {}: {}: {}", request.at("task").get<std::string>(),
                           plan::place_of(phase_of(request), request.value("step", int64_t{-1})),
                           to_string(own.kind()), own.message()),
               own.hint());
}

}  // namespace

LedgerHost::LedgerHost(Options options) : options_(std::move(options)), ledger_(options_.ledger) {
  tasks_.resize(static_cast<size_t>(options_.ledger.workers));
  chief_gone_since_ = now();
  last_look_ = now();
}

LedgerHost::Task& LedgerHost::task(int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= tasks_.size()) {
    throw invalid_argument(
        fmt::format("there is no worker of rank {} among {}", rank, tasks_.size()),
        "give every task the same cluster in TF_CONFIG");
  }
  return tasks_[static_cast<size_t>(rank)];
}

bool LedgerHost::is_here(const json& request) {
  const Task& asker = task(request.at("rank").get<int>());
  return asker.here && asker.incarnation == request.at("incarnation").get<uint64_t>();
}

void LedgerHost::check_failure() const {
  if (failure_) throw *failure_;
}

void LedgerHost::check_generation(const json& request) const {
  if (request.at("generation").get<int64_t>() == ledger_.generation()) return;
  throw Error(
      ErrorKind::kPeerLost,
      fmt::format("the run began again from a checkpoint (generation {}, and this task is in "
                  "generation {})",
                  ledger_.generation(), request.at("generation").get<int64_t>()));
}

void LedgerHost::wait(std::unique_lock<std::mutex>& lock, const json& request,
                      const std::function<bool()>& ready) {
  const double seconds = std::clamp(request.value("wait", 0.0), 0.0, kLongestWait);
  const TimePoint deadline = options_.clock->now() + from_seconds(seconds);
  // Some of what is waited for comes with time alone, so it looks now and then.
  while (!closed_ && !failure_ && !ready() && options_.clock->now() < deadline) {
    options_.clock->wait_for(lock, changed_, from_seconds(0.05), [] { return false; });
  }
  check_failure();
}

json LedgerHost::answer(const json& request) {
  std::unique_lock lock(mutex_);
  const std::string op = request.at("op").get<std::string>();
  if (op == "fail") {
    if (!failure_) failure_ = failure_of(request);
    changed_.notify_all();
    return json::object();
  }
  const int rank = request.value("rank", -1);
  if (op == "bye") {
    Task& leaving = task(rank);
    // One that never joined says it too.
    if (leaving.incarnation != 0 &&
        leaving.incarnation != request.at("incarnation").get<uint64_t>())
      return json::object();
    leaving.said_goodbye = true;
    lose(rank);
    changed_.notify_all();
    return json::object();
  }
  if (op == "part") {
    if (is_here(request)) task(rank).parted = true;
    return json::object();
  }
  check_failure();
  if (rank >= 0 && op != "resolve" && is_here(request)) task(rank).heard = now();
  if (op == "join") return join(lock, request);
  if (op == "claim") return claim(lock, request);
  if (op == "commit") return commit(lock, request);
  if (op == "settled") return settled(lock, request);
  if (op == "others") return others(lock, request);
  if (op == "measures") return measures();
  if (op == "beat") {
    if (is_here(request)) {
      task(rank).phase = phase_of(request);
      task(rank).step = request.value("step", int64_t{-1});
    }
    // One that was taken for lost, and lives: it hears so when it asks for a step.
    return {{"step", ledger_.step()}};
  }
  if (op == "begin") {
    StepLedger::Start start{.generation = request.at("generation").get<int64_t>(),
                            .step = request.at("step").get<int64_t>(),
                            .positions = request.at("positions").get<std::vector<std::string>>()};
    if (request.contains("last_step")) start.last_step = request.at("last_step").get<int64_t>();
    ledger_.begin(std::move(start), now());
    let_go_ = false;
  } else if (op == "finish") {
    finished_ = true;
    finished_at_ = request.value("step", int64_t{0});
  } else if (op == "status") {
    json status{{"generation", ledger_.generation()}, {"step", ledger_.step()}};
    if (finished_) status["finished"] = true;
    return status;
  } else if (op == "resolve") {
    // Another run has other tickets, with the same numbers.
    const bool known = ledger_.generation() == request.at("generation").get<int64_t>();
    const bool committed = known && ledger_.committed(rank, request.at("ticket").get<int64_t>());
    // A server has dropped its gradients: they cannot count any more.
    if (known && !committed && request.value("gone", false)) {
      ledger_.abandon(rank, request.at("ticket").get<int64_t>());
      changed_.notify_all();
    }
    return {{"committed", committed}};
  } else {
    check_generation(request);
    const bool here = is_here(request);
    if (op == "abandon") {
      // Of one that is gone nothing is claimed any more.
      if (here) ledger_.abandon(rank);
    } else if (op == "resume") {
      // It was resumed already where its task was taken for lost; what is paused now is another's.
      const json held{{"held", here && ledger_.paused()}};
      if (here) ledger_.resume();
      changed_.notify_all();
      return held;
    } else if (op == "end_input" || op == "stop" || op == "pause" || op == "let_go") {
      if (!here) throw taken_for_lost(rank);
      if (op == "end_input") {
        ledger_.end_input(rank);
      } else if (op == "stop") {
        ledger_.stop(request.at("why").get<std::string>());
      } else if (op == "let_go") {
        let_go_ = true;
      } else {
        ledger_.pause();
        return with_round({{"step", ledger_.step()},
                           {"commits", ledger_.commits()},
                           {"positions", ledger_.positions()},
                           {"ended", ledger_.ended()}});
      }
    } else {
      throw invalid_argument(fmt::format("a parameter server knows no \"{}\"", op),
                             "run the same version of the program in every task");
    }
  }
  changed_.notify_all();
  return json::object();
}

json LedgerHost::join(std::unique_lock<std::mutex>& lock, const json& request) {
  const int rank = request.at("rank").get<int>();
  const auto incarnation = request.at("incarnation").get<uint64_t>();
  {
    Task& joining = task(rank);
    if (!joining.here || joining.incarnation != incarnation) {
      joining = {.incarnation = incarnation, .here = true, .heard = now()};
      if (rank == kChief) {
        chief_gone_since_.reset();
        ledger_.resume();
      }
      ledger_.join(rank, now());
      changed_.notify_all();
    }
  }
  wait(lock, request, [&] { return ledger_.begun() || finished_; });
  // A run that had ended before it began here has made no step that the ledger would know of.
  if (finished_) return {{"state", "finished"}, {"step", std::max(ledger_.step(), finished_at_)}};
  if (!ledger_.begun()) return {{"state", "waiting"}, {"missing", names({kChief})}};
  return {{"state", "begun"},
          {"generation", ledger_.generation()},
          {"step", ledger_.step()},
          {"position", ledger_.position(rank)}};
}

json LedgerHost::claim(std::unique_lock<std::mutex>& lock, const json& request) {
  const int rank = request.at("rank").get<int>();
  StepLedger::Claim claim;
  wait(lock, request, [&] {
    check_generation(request);
    if (!is_here(request)) return true;
    claim = ledger_.claim(rank, now());
    return claim.state != StepLedger::Claim::State::kWait;
  });
  if (!is_here(request)) throw taken_for_lost(rank);
  if (finished_) claim.state = StepLedger::Claim::State::kOver;
  changed_.notify_all();
  switch (claim.state) {
    case StepLedger::Claim::State::kGranted:
      return with_round({{"state", "granted"}, {"ticket", claim.ticket}});
    case StepLedger::Claim::State::kOver:
      return {{"state", "over"}, {"step", ledger_.step()}, {"why", ledger_.why(now())}};
    case StepLedger::Claim::State::kWait:
      break;
  }
  json waiting{{"state", "waiting"}};
  if (claim.waits_for >= 0) waiting["for"] = options_.tasks[static_cast<size_t>(claim.waits_for)];
  return waiting;
}

json LedgerHost::commit(std::unique_lock<std::mutex>& lock, const json& request) {
  const int rank = request.at("rank").get<int>();
  const auto ticket = request.at("ticket").get<int64_t>();
  std::optional<int64_t> looked;
  if (request.contains("looked")) looked = request.at("looked").get<int64_t>();
  StepLedger::Commit commit;
  wait(lock, request, [&] {
    check_generation(request);
    commit = ledger_.commit(rank, ticket, request.at("position").get<std::string>(), now(), looked);
    return commit.state != StepLedger::Commit::State::kWait;
  });
  changed_.notify_all();
  switch (commit.state) {
    case StepLedger::Commit::State::kWait:
      return {{"state", "waiting"}};
    case StepLedger::Commit::State::kDropped:
      return {{"state", "dropped"}, {"step", commit.step}, {"rows", rows_}};
    case StepLedger::Commit::State::kAccepted:
      task(rank).phase = plan::Phase::kTraining;
      task(rank).step = commit.step;
      rows_ += request.value("rows", int64_t{0});
      return with_next_claim({{"state", "accepted"}, {"step", commit.step}, {"rows", rows_}},
                             request);
    case StepLedger::Commit::State::kLost:
      break;
  }
  throw taken_for_lost(rank).with_detail("its step counts for nothing");
}

json LedgerHost::with_next_claim(json answer, const json& request) {
  if (!request.value("next", false) || finished_ || options_.ledger.aggregate > 0) return answer;
  if (!is_here(request)) return answer;
  const StepLedger::Claim claim = ledger_.claim(request.at("rank").get<int>(), now());
  if (claim.state == StepLedger::Claim::State::kGranted) answer["next"] = claim.ticket;
  return answer;
}

Error LedgerHost::taken_for_lost(int rank) const {
  return Error(ErrorKind::kPeerLost,
               fmt::format("{} was taken for lost: nothing was heard of it for {} s, or its "
                           "connections had ended",
                           options_.tasks[static_cast<size_t>(rank)], options_.heartbeat_timeout));
}

json LedgerHost::settled(std::unique_lock<std::mutex>& lock, const json& request) {
  check_generation(request);
  const bool chief = request.at("rank") == kChief;
  // Workers stay until the chief has saved: were a server lost before, all would go back to the
  // checkpoint before, and their data would be wanted again.
  const auto ready = [&] { return finished_ || (chief ? ledger_.settled(now()) : let_go_); };
  wait(lock, request, ready);
  // The chief saves for the last time now: who comes later has nothing to do any more.
  if (chief && ledger_.settled(now())) ledger_.stop(ledger_.why(now()));
  return {{"settled", ready()},
          {"over", ledger_.settled(now())},
          {"step", ledger_.step()},
          {"why", ledger_.why(now())},
          {"unfinished", names(ledger_.unfinished())},
          {"awaited", names(ledger_.awaited(now()))}};
}

json LedgerHost::others(std::unique_lock<std::mutex>& lock, const json& request) {
  const int asker = request.at("rank").get<int>();
  std::vector<int> here;
  wait(lock, request, [&] {
    here.clear();
    for (int rank = 0; rank < options_.ledger.workers; ++rank) {
      if (rank != asker && task(rank).here) here.push_back(rank);
    }
    return here.empty();
  });
  return {{"here", names(here)}};
}

json LedgerHost::with_round(json answer) const {
  const StepLedger::Round& round = ledger_.last_round();
  if (round.number == 0) return answer;
  json parts = json::array();
  for (const auto& part : round.parts) parts.push_back({part.worker, part.ticket});
  answer["round"] = {
      {"generation", ledger_.generation()}, {"number", round.number}, {"parts", parts}};
  return answer;
}

json LedgerHost::last_round() const {
  const std::lock_guard lock(mutex_);
  return with_round(json::object());
}

json LedgerHost::measures() const {
  json all = json::object();
  for (int rank = 0; rank < options_.ledger.workers; ++rank) {
    const plan::StalenessSummary staleness = ledger_.staleness(rank);
    if (staleness.steps == 0) continue;
    all[options_.tasks[static_cast<size_t>(rank)]] = {{"steps", staleness.steps},
                                                      {"mean", staleness.mean},
                                                      {"p99", staleness.p99},
                                                      {"max", staleness.max}};
  }
  return {{"tasks", all}, {"dropped", ledger_.dropped()}};
}

std::vector<std::string> LedgerHost::names(const std::vector<int>& ranks) const {
  std::vector<std::string> all;
  for (const int rank : ranks) all.push_back(options_.tasks[static_cast<size_t>(rank)]);
  return all;
}

bool LedgerHost::committed(int rank, int64_t ticket) {
  const std::lock_guard lock(mutex_);
  return ledger_.committed(rank, ticket);
}

void LedgerHost::lose(int rank) {
  Task& lost = task(rank);
  if (!lost.here) return;
  lost.here = false;
  ledger_.leave(rank, now());
  if (rank == kChief) {
    chief_gone_since_ = now();
    // What it was saving is not saved.
    ledger_.resume();
  }
  changed_.notify_all();
}

std::string LedgerHost::others_go_on(int rank) const {
  for (size_t other = 0; other < tasks_.size(); ++other) {
    if (tasks_[other].here && other != static_cast<size_t>(rank)) return "; the others go on";
  }
  return "";
}

void LedgerHost::leave(int rank, uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  Task& leaving = task(rank);
  if (!leaving.here || leaving.incarnation != incarnation) return;
  if (!finished_) {
    const std::string text =
        fmt::format("{} {}, last heard of {}{}", options_.tasks[static_cast<size_t>(rank)],
                    leaving.parted ? "has left" : "was lost",
                    plan::place_of(leaving.phase, leaving.step), others_go_on(rank));
    leaving.parted ? log::info(text) : log::warning(text);
  }
  lose(rank);
}

void LedgerHost::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = error;
  changed_.notify_all();
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
    return closed_ || std::ranges::all_of(tasks_, [](const Task& task) {
             return task.said_goodbye || (task.incarnation != 0 && !task.here);
           });
  });
}

std::optional<double> LedgerHost::without_chief() {
  const std::lock_guard lock(mutex_);
  if (!chief_gone_since_) return std::nullopt;
  return now() - *chief_gone_since_;
}

void LedgerHost::look() {
  const std::lock_guard lock(mutex_);
  const double lost = plan::standstill(&last_look_, now(), options_.heartbeat_timeout / 2);
  if (chief_gone_since_ && lost > 0)
    chief_gone_since_ = plan::moved_on(*chief_gone_since_, lost, now());
  for (int rank = 0; rank < options_.ledger.workers; ++rank) {
    Task& looked_at = task(rank);
    if (lost > 0) looked_at.heard = plan::moved_on(looked_at.heard, lost, now());
    if (!looked_at.here || now() - looked_at.heard <= options_.heartbeat_timeout) continue;
    log::warning(fmt::format("{} is silent for {:.0f} s, last heard of {}{}",
                             options_.tasks[static_cast<size_t>(rank)], now() - looked_at.heard,
                             plan::place_of(looked_at.phase, looked_at.step), others_go_on(rank)));
    lose(rank);
  }
  ledger_.close_round(now());
}

void LedgerHost::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace muster::inline v0_1::ps
