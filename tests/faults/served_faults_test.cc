// Tasks of a cluster with parameter servers that are struck: a few cells of the fault table.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/temp_directory.h"
#include "tests/end_to_end/program.h"
#include "tests/end_to_end/served_tasks.h"
#include "tests/faults/blow.h"
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
        const std::string text = strike(cells[own]).broken;
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
                {kCutConnections, "ps 0", "push"},
                {kCutConnections, "evaluator 0", "evaluate"},
                {kDiskFull, "launcher", "push"},
                {kTenTimesSlower, "ps 1", "push"},
                {SIGSTOP, "chief 0", "end"},
                {SIGSTOP, "ps 1", "start"}});
}

TEST(ServedFaults, WithoutARestartTheRunEndsOrContinuesWithoutTheTask) {
  expect_whole({{SIGKILL, "worker 0", "push", /*restarts=*/false},
                {SIGKILL, "evaluator 0", "start", /*restarts=*/false},
                {SIGKILL, "chief 0", "pull", /*restarts=*/false},
                {kDiskFull, "ps 1", "push", /*restarts=*/false}});
}

TEST(ServedFaults, ATaskThatIsAskedToStopSavesWhatIsThere) {
  expect_whole({{SIGTERM, "chief 0", "push"},
                {SIGTERM, "worker 0", "input"},
                {SIGTERM, "evaluator 0", "export"},
                {SIGTERM, "launcher", "evaluate"}});
}

// The run saves by itself only at its end. Returns what is wrong.
std::string broken_by_stopping(int server) {
  const TempDirectory directory;
  const std::string model = directory / "model", saved = "saved " + model + "/model.ckpt-";
  try {
    Program program(muster_run({"--chief", "--workers=1", "--ps=2", "--survivor-time=1"},
                               {binary("fault_victim"), "--model_dir=" + model}),
                    {{"FAULT_SERVED", "2"},
                     {"FAULT_STEPS", "100000"},
                     {"FAULT_SAVE_EVERY", "100000"},
                     {"OMP_NUM_THREADS", "1"}});
    const std::string made = "made: ";
    program.wait_for(made);
    const std::string before = program.output();
    const int64_t struck = std::stoll(before.substr(before.rfind(made) + made.size()));
    program.signal_task("ps", server, SIGTERM);
    program.wait_for(fmt::format("ps {} has to stop, and the chief has saved", server));
    const int code = program.wait();
    const std::string output = program.output();
    const int64_t step = std::stoll(output.substr(output.rfind(saved) + saved.size()));
    if (code == 128 + SIGTERM && step >= struck && has_checkpoint(model, step)) return "";
    return fmt::format("exit code {}, saved step {}, at step {}:\n{}", code, step, struck, output);
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Both servers: the first one keeps the ledger.
TEST(ServedFaults, TheChiefSavesForAServerThatIsAskedToStop) {
  std::string first, second;
  {
    const std::jthread other([&] { second = broken_by_stopping(1); });
    first = broken_by_stopping(0);
  }
  EXPECT_EQ(first, "");
  EXPECT_EQ(second, "");
}

// Waits until this process writes a part of a checkpoint, and stops it there; false if it has
// written the part by then.
bool stop_while_it_writes(Program& server, const std::string& model_dir) {
  const std::string own = fmt::format("{}-", server.pid());
  const auto writes = [&] {
    if (!std::filesystem::exists(model_dir)) return false;
    for (const auto& entry : std::filesystem::directory_iterator(model_dir)) {
      const std::string name = entry.path().filename();
      if (name.starts_with(".model.ckpt-") && name.find(".part-") != std::string::npos &&
          name.find(own) != std::string::npos)
        return true;
    }
    return false;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!writes()) {
    if (std::chrono::steady_clock::now() > end) return false;
    // A part takes some tens of milliseconds.
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  server.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for what it is in the middle of
  return writes();
}

// The step of the newest checkpoint; -1 without one.
int64_t newest_step(const std::string& model_dir) {
  const std::string name = "model_checkpoint_path: \"model.ckpt-", file = model_dir + "/checkpoint";
  const std::string text = std::filesystem::exists(file) ? read_file(file) : "";
  const size_t found = text.find(name);
  return found == std::string::npos ? -1 : std::stoll(text.substr(found + name.size()));
}

// Of a ClusterCoordinator and of a loop by hand, whose chiefs make steps meanwhile.
TEST(ServedFaults, AServerKilledWhileItWritesItsPartLeavesTheCheckpointBefore) {
  for (const std::string program : {"calls", "loop"}) {
    until_in_time([&] {
      ServedTasks run(/*workers=*/1, /*servers=*/2, [&](const std::string& model_dir) {
        return Words{"env", "FAULT_SCHEDULED=" + program, binary("fault_victim"),
                     "--model_dir=" + model_dir};
      });
      const std::string model_dir = run.model_dir();
      const auto newest = [&] { return newest_step(model_dir); };
      if (!comes_true([&] { return newest() >= 0; })) return false;
      if (!stop_while_it_writes(run.task("ps1"), model_dir)) return false;
      const int64_t before = newest();
      run.task("ps1").signal(SIGKILL);
      EXPECT_EQ(run.task("ps1").wait(), -SIGKILL);
      EXPECT_EQ(run.task("chief0").wait(), 138) << run.task("chief0").output();
      EXPECT_EQ(newest(), before);
      const Ran whole = testing::run({binary("muster"), "inspect", "checkpoint", model_dir});
      EXPECT_EQ(whole.code, 0) << whole.output;
      if (program == "loop") {
        EXPECT_EQ(run.task("worker0").wait(), 138) << run.task("worker0").output();
        run.start("worker", 0);
      }
      run.start("ps", 1);
      run.start("chief", 0);
      run.task("chief0").wait_for(fmt::format("restored {}/model.ckpt-{}", model_dir, before));
      EXPECT_TRUE(comes_true([&] { return newest() > before; }));
      run.stop();
      return true;
    });
  }
}

}  // namespace
}  // namespace muster::testing
