// Tasks of a cluster with parameter servers that are killed, asked to stop, or stand still, in
// every phase.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/served_cell.h"

namespace muster::testing {
namespace {

void expect_whole(const std::vector<ServedCell>& cells) {
  constexpr size_t kAtOnce = 4;
  std::atomic<size_t> next = 0;
  std::mutex mutex;  // arguments of gtest
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kAtOnce; ++i) {
    threads.emplace_back([&] {
      for (size_t own = next++; own < cells.size(); own = next++) {
        const std::string text = broken(cells[own]);
        const std::lock_guard lock(mutex);
        EXPECT_EQ(text, "");
      }
    });
  }
}

// Signals, tasks and phases of all kinds.
TEST(ServedFaults, TheRunMakesItsStepsAllTheSame) {
  expect_whole({{SIGKILL, "ps 0", "push"},
                {SIGKILL, "ps 1", "save"},
                {SIGKILL, "chief 0", "save"},
                {SIGKILL, "worker 0", "pull"},
                {SIGKILL, "evaluator 0", "evaluate"},
                {SIGKILL, "ps 0", "end"},
                {SIGSTOP, "chief 0", "end"},
                {SIGSTOP, "ps 1", "start"},
                {SIGSTOP, "worker 0", "push"}});
}

TEST(ServedFaults, WithoutARestartTheRunEndsOrContinuesWithoutTheTask) {
  expect_whole({{SIGKILL, "worker 0", "push", /*restarts=*/false},
                {SIGKILL, "evaluator 0", "start", /*restarts=*/false},
                {SIGKILL, "chief 0", "pull", /*restarts=*/false},
                {SIGKILL, "ps 1", "push", /*restarts=*/false}});
}

TEST(ServedFaults, ATaskThatIsAskedToStopSavesWhatIsThere) {
  expect_whole({{SIGTERM, "chief 0", "push"},
                {SIGTERM, "worker 0", "input"},
                {SIGTERM, "ps 1", "save"},
                {SIGTERM, "evaluator 0", "export"},
                {SIGTERM, "launcher", "evaluate"}});
}

// ./dev check asks for it.
TEST(ServedFaults, DISABLED_EveryTaskInEveryPhase) {
  std::vector<ServedCell> cells;
  for (const int signal : {SIGKILL, SIGSTOP}) {
    for (const std::string& task : served_tasks()) {
      for (const std::string& phase : served_phases()) cells.push_back({signal, task, phase});
    }
  }
  std::vector<std::string> tasks = served_tasks();
  tasks.emplace_back("launcher");
  for (const std::string& task : tasks) {
    for (const std::string& phase : served_phases()) {
      // An evaluator may have ended by then.
      if (task != "evaluator 0" || phase != "end") cells.push_back({SIGTERM, task, phase});
    }
  }
  expect_whole(cells);
}

}  // namespace
}  // namespace muster::testing
