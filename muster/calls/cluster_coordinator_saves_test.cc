// When a ClusterCoordinator saves: for a server that is asked to stop. Each task is a thread with
// its own TF_CONFIG.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/calls/cluster_coordinator.h"
#include "muster/calls/internal/test_coordinators.h"
#include "muster/checkpoint/manager.h"
#include "muster/ps/parameter_server.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using muster::testing::LocalCluster;
using ::testing::HasSubstr;

using Chief = std::function<void(ClusterCoordinator&, const Program&)>;

// A chief, a worker and two servers. The run makes ten steps, then the server `stopped` is asked to
// stop, and the chief calls `waits`. Returns how the tasks have ended, servers last.
std::vector<Error> stop_server(int stopped, const std::string& model_dir, const Chief& waits) {
  constexpr int kChief = 0, kTasks = 4, kFirstServer = 2, kSteps = 10;
  const LocalCluster cluster(kFirstServer, /*chief=*/true, kTasks - kFirstServer);
  const auto strategy =
      parameter_server({.heartbeat_interval = Seconds(0.1), .restart_timeout = Seconds(2)});
  std::atomic<bool> asked = false;
  std::vector<Error> ends(kTasks, Error(ErrorKind::kInternal, ""));
  muster::testing::run_ranks(kTasks, [&](int task) {
    const bool serves = task >= kFirstServer;
    ends[static_cast<size_t>(task)] = error_of([&] {
      Program program;
      ClusterCoordinator coordinator(
          strategy, {.model_dir = model_dir,
                     .cancelled = [&, task] { return asked && task == kFirstServer + stopped; },
                     .environment = serves ? cluster.server_environment(task - kFirstServer)
                                           : cluster.environment(task)});
      program.define(coordinator);
      if (coordinator.serve()) return;
      ASSERT_EQ(task, kChief);
      train_steps(coordinator, program, kSteps);
      for (int step = 0; step < 100'000; ++step) coordinator.schedule(program.train);
      asked = true;
      waits(coordinator, program);
    });
  });
  EXPECT_EQ(ends[kChief].kind(), ErrorKind::kPeerLost) << ends[kChief].what();
  const Error& server = ends[static_cast<size_t>(kFirstServer + stopped)];
  EXPECT_EQ(server.kind(), ErrorKind::kCancelled) << server.what();
  EXPECT_THAT(server.hint(), HasSubstr(model_dir.empty() ? "model_dir for checkpoints"
                                                         : "continue from the last checkpoint"));
  return ends;
}

void expect_saved(const std::string& model_dir) {
  const auto newest = CheckpointManager(model_dir).load_latest();
  ASSERT_TRUE(newest.has_value());
  EXPECT_GE(newest->checkpoint.global_step, 10);
}

// The first one keeps the ledger. The program itself never saves.
TEST(CoordinatorSaves, TheChiefSavesForAServerThatIsAskedToStop) {
  for (const int stopped : {0, 1}) {
    const TempDirectory directory;
    const std::string model_dir = directory / "model";
    stop_server(stopped, model_dir,
                [](ClusterCoordinator& coordinator, const Program&) { coordinator.join(); });
    expect_saved(model_dir);
  }
}

TEST(CoordinatorSaves, AProgramThatOnlyAsksWhetherCallsHaveEndedSavesToo) {
  const TempDirectory directory;
  const std::string model_dir = directory / "model";
  stop_server(0, model_dir, [&](ClusterCoordinator& coordinator, const Program&) {
    EXPECT_TRUE(comes_true([&] {
      EXPECT_FALSE(coordinator.done());
      return CheckpointManager(model_dir).latest().has_value();
    }));
    coordinator.join();
  });
  expect_saved(model_dir);
}

// In time for the deadline of run_ranks(), which is shorter than the longest wait of a server.
TEST(CoordinatorSaves, WithoutADirectoryAServerDoesNotWaitForACheckpoint) {
  for (const int stopped : {0, 1}) {
    ::testing::internal::CaptureStderr();
    stop_server(stopped, "",
                [](ClusterCoordinator& coordinator, const Program&) { coordinator.join(); });
    log::flush();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("has to stop, and its weights are lost: this run has no directory"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
