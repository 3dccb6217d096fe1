// A few cells of the fault tables; ./dev check runs them all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/temp_directory.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"
#include "tests/faults/cell.h"
#include "tests/faults/node_cell.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Signals, victims and phases of all kinds. The cells that wait longest come first: meanwhile the
// others have the cores.
const std::vector<Cell>& cells() {
  static const std::vector<Cell> all = {{SIGSTOP, "worker", "step", "shared_memory"},
                                        {SIGKILL, "worker", "join", "tcp"},
                                        {kTenTimesSlower, "worker", "step", "shared_memory"},
                                        {kCutConnections, "worker", "step", "shared_memory"},
                                        {kCutConnections, "chief", "step", "tcp"},
                                        {kDiskFull, "chief", "step", "tcp"},
                                        {kDiskFull, "worker", "save", "shared_memory"},
                                        {SIGKILL, "worker", "connect", "tcp"},
                                        {SIGKILL, "chief", "evaluate", "shared_memory"},
                                        {SIGKILL, "chief", "save", "shared_memory"},
                                        {SIGKILL, "chief", "write", "tcp"},
                                        {SIGTERM, "chief", "write", "shared_memory"},
                                        {SIGTERM, "worker", "step", "tcp"},
                                        {SIGTERM, "worker", "input", "tcp"},
                                        {SIGTERM, "chief", "export", "shared_memory"},
                                        {SIGTERM, "chief", "end", "tcp"},
                                        {SIGKILL, "launcher", "build", "shared_memory"}};
  return all;
}

// The broken promises of a cell.
std::string broken(const Cell& cell) {
  std::string text;
  try {
    const Measured measured = strike(cell);
    for (const std::string& line : measured.broken) text += cell.text() + ": " + line + "\n";
    if (!text.empty()) text += measured.output;
  } catch (const std::exception& error) {
    text = cell.text() + ": " + error.what();
  }
  return text;
}

TEST(Faults, EndInTimeNameTheVictimAndResumeToTheSameBits) {
  constexpr size_t kAtOnce = 4;
  std::vector<std::function<std::string()>> all;
  for (const Cell& cell : cells()) all.emplace_back([&cell] { return broken(cell); });
  for (const NodeCell& cell :
       {NodeCell{SIGTERM, "rendezvous", "step"}, NodeCell{kDiskFull, "launcher", "step"},
        NodeCell{SIGTERM, "launcher", "step", /*elastic=*/true},
        NodeCell{SIGKILL, "worker", "save", /*elastic=*/true}})
    all.emplace_back([cell] { return strike(cell).broken; });
  std::atomic<size_t> next = 0;
  std::mutex mutex;  // arguments of gtest
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kAtOnce; ++i) {
    threads.emplace_back([&] {
      for (size_t own = next++; own < all.size(); own = next++) {
        const std::string text = all[own]();
        const std::lock_guard lock(mutex);
        EXPECT_EQ(text, "");
      }
    });
  }
}

// A step of worker 1 hangs for a while: each task says what it does, and the chief on whom the run
// waits. Nobody is ended for it.
TEST(Faults, AStepThatHangsIsReportedWithStacksAndTheRunContinues) {
  const TempDirectory directory;
  const Ran ran = run(
      muster_run({"--workers=2"}, {binary("fault_victim"), "--model_dir=" + directory / "model"}),
      {{"FAULT_PHASE", "hang"},
       {"FAULT_TASK", "worker 1"},
       {"FAULT_STEPS", "200"},
       {"MUSTER_LIVE_SECONDS", "0.5"}});
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output,
              AllOf(ContainsRegex("\\[worker 1\\] W .* step 3[0-9] of worker 1 takes"),
                    ContainsRegex("\\[worker 1\\] W .* worker 1 does: compute for [1-9]"),
                    ContainsRegex("\\[worker 0\\] W .* worker 0 does: communication for [1-9]"),
                    ContainsRegex("\\[worker 0\\] W .* worker 1 did, .*: compute"),
                    HasSubstr("the others wait for worker 1 (compute)"),
                    // The function in which it hangs, and the one that called it.
                    ContainsRegex("\\[worker 1\\] .*::reach\\("),
                    ContainsRegex("\\[worker 1\\] .*::model_fn\\("),
                    HasSubstr("of worker 1 has ended after")));
}

TEST(Named, AreThoseTheOthersSpeakOf) {
  const std::string output =
      "[worker 0] E 12:00:01 PeerLost: worker 1 was lost, last heard of at step 3; this task is\n"
      "[worker 1] E 12:00:01 worker 1 lost worker 0\n"
      "[worker 0] I 12:00:01 is waiting for worker 7\n"
      "[muster] stopped because worker 1 failed: killed by SIGKILL\n";
  EXPECT_EQ(named_in(output, "worker 1").text(), "worker 1");
  EXPECT_EQ(named_in(output, "").text(), "worker 0, worker 1; muster run: worker 1");
  EXPECT_EQ(named_in("nothing\n", "").text(), "-");
}

TEST(StrikeInTime, RepeatsABlowThatIsLateAndNoOther) {
  const auto calls_until = [](int good, const Error* thrown) {
    int calls = 0;
    try {
      const int last = strike_in_time<int>([&](bool* late) {
        ++calls;
        if (thrown != nullptr && calls < good) throw *thrown;
        *late = calls < good;
        return calls;
      });
      EXPECT_EQ(last, calls);
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), thrown->message());
    }
    return calls;
  };
  const Error gone = not_found("no such task"), wrong = internal_error("wrong");
  EXPECT_EQ(calls_until(1, nullptr), 1);
  EXPECT_EQ(calls_until(3, nullptr), 3);
  EXPECT_EQ(calls_until(100, nullptr), 5) << "the last result stands";
  EXPECT_EQ(calls_until(3, &gone), 3);
  EXPECT_EQ(calls_until(100, &gone), 5) << "and the last error";
  EXPECT_EQ(calls_until(3, &wrong), 1);
}

}  // namespace
}  // namespace muster::testing
