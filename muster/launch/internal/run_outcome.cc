#include "muster/launch/internal/run_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <string>

#include "muster/base/exit_code.h"
#include "muster/launch/internal/failure_rank.h"
#include "muster/launch/said_error.h"

namespace muster::inline v0_1::launch::internal {
namespace {

// Of those who were told to stop, one whose own words say that it failed.
std::optional<std::size_t> who_could_not_save(const std::vector<TaskExit>& exits) {
  for (std::size_t i = 0; i < exits.size(); ++i) {
    const TaskExit& exit = exits[i];
    const int code = exit.status.code;
    const bool stopped =
        exit.status.signal != 0 || code == 0 || code == kExitInterrupted || code == kExitTerminated;
    const auto says = [&](const char* words) {
      return exit.last_error.find(words) != std::string::npos;
    };
    // The signal may have come to another task first, which took this one along.
    const bool follows = says("PeerLost: ") || says("was asked to stop");
    if (!stopped && !exit.last_error.empty() && !follows) return i;
  }
  return std::nullopt;
}

// Of tasks that blame each other, the one that more of them blame than any other: one whose
// connections broke says so itself. Nothing without one.
std::optional<std::size_t> most_blamed(const std::vector<const ProcessSpec*>& specs,
                                       const std::vector<TaskExit>& exits) {
  std::map<std::string, int> blamed;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (failure_rank(exits[i], *specs[i]) == kBlamesAnother)
      ++blamed[task_blamed(exits[i].last_error)];
  }
  std::optional<std::size_t> most;
  int highest = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    // "worker 1" and "chief", as errors name them.
    const auto found = blamed.find(task_blamed(specs[i]->name));
    const bool counts = found != blamed.end() && !found->first.empty();
    if (!counts || failure_rank(exits[i], *specs[i]) != kBlamesAnother) continue;
    if (found->second == highest) most.reset();
    if (found->second > highest) {
      highest = found->second;
      most = i;
    }
  }
  return most;
}

}  // namespace

Outcome judge(const std::vector<const ProcessSpec*>& specs, std::vector<TaskExit> exits,
              int stop_signal) {
  Outcome outcome{.stop_signal = stop_signal, .tasks = std::move(exits)};
  int last = -1;
  for (const TaskExit& exit : outcome.tasks) last = std::max(last, exit.ended ? exit.order : -1);
  bool all_ok = true;
  int best = 0;
  const auto is_spared = [&](std::size_t i) {
    const TaskExit& exit = outcome.tasks[i];
    return specs[i]->spared && exit.ended && !exit.needed &&
           (exit.refused || asks_for_restart(exit.status));
  };
  // All others ended well, of which there is one: a machine without the chief may lose all.
  bool spares = std::ranges::any_of(
      outcome.tasks, [](const TaskExit& exit) { return exit.ended && exit.status.ok(); });
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TaskExit& exit = outcome.tasks[i];
    spares = spares && (specs[i]->beside || is_spared(i) || (exit.ended && exit.status.ok()));
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    TaskExit& exit = outcome.tasks[i];
    if (spares && is_spared(i)) continue;
    if (!exit.ended) {
      exit = {.status = {.signal = SIGKILL},
              .after_our_signal = true,
              .stuck = exit.stuck,
              .order = ++last};
    }
    const int mine = failure_rank(exit, *specs[i]);
    if (mine == 0) continue;
    all_ok = false;
    if (best == 0 || mine < best ||
        (mine == best && exit.order < outcome.tasks[*outcome.root_cause].order)) {
      best = mine;
      outcome.root_cause = i;
    }
  }
  if (best == kBlamesAnother) {
    if (const auto most = most_blamed(specs, outcome.tasks)) outcome.root_cause = most;
  }
  // A task that stood still, and ended well as soon as it was told to, is what the others lost.
  const auto stuck = std::ranges::find_if(outcome.tasks, &TaskExit::stuck);
  if (best == kBlamesAnother && stuck != outcome.tasks.end())
    outcome.root_cause = stuck - outcome.tasks.begin();
  outcome.rank = best;
  const auto code_of = [&](std::size_t task) { return outcome.tasks[task].status.shell_code(); };
  if (stop_signal != 0 && best != 1) {
    outcome.root_cause = who_could_not_save(outcome.tasks);
    outcome.exit_code = outcome.root_cause ? code_of(*outcome.root_cause)
                        : all_ok           ? 0
                                           : 128 + stop_signal;
  } else if (outcome.root_cause) {
    // A task that was stuck ended because we killed it, so its own exit code says nothing; the
    // tasks that waited for it ask for a restart.
    const bool hung = outcome.tasks[*outcome.root_cause].stuck;
    outcome.exit_code = hung ? kExitRestart : code_of(*outcome.root_cause);
  }
  return outcome;
}

std::vector<std::string> reasons(const Outcome& outcome,
                                 const std::vector<const ProcessSpec*>& specs,
                                 const std::string& hung, bool on_screen) {
  if (outcome.exit_code == 0) return {};
  if (!outcome.root_cause) return {fmt::format("stopped; exit code {}", outcome.exit_code)};
  std::vector<std::string> lines;
  const ProcessSpec& spec = *specs[*outcome.root_cause];
  const TaskExit& exit = outcome.tasks[*outcome.root_cause];
  const auto add_words = [&] {
    for (const std::string& line : exit.last_error_lines)
      lines.push_back((&line == exit.last_error_lines.data() ? "its error: " : "") + line);
  };
  if (exit.stuck) {
    lines.push_back(fmt::format("stopped because {} hung: it had not ended {} after the others",
                                spec.name, hung));
    add_words();
    return lines;
  }
  lines.push_back(fmt::format("{} {} failed: {}",
                              spec.beside ? "the others ended well, but" : "stopped because",
                              spec.name, explain(exit.status)));
  // A task that ended too early did not fail, but the others lost it.
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const TaskExit& other = outcome.tasks[i];
    if (failure_rank(exit, spec) == kBlamesAnother && other.status.ok() && other.order < exit.order)
      lines.push_back(fmt::format("{} had ended before, with exit code 0", specs[i]->name));
  }
  if (!on_screen) add_words();
  return lines;
}

}  // namespace muster::inline v0_1::launch::internal
