// Saves of a ClusterCoordinator: for a server that is asked to stop, and while calls are made. Each
// task is a thread with its own TF_CONFIG.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/calls/cluster_coordinator.h"
#include "muster/calls/internal/test_coordinators.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/testing/memory_store.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/late_error.h"
#include "tests/support/held_save.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using muster::testing::LocalCluster;
using ::testing::HasSubstr;

using Chief = std::function<void(ClusterCoordinator&, const Program&)>;

// A chief, a worker and two servers. The run makes ten steps, then the server `stopped` is asked to
// stop, and the chief calls `waits`. Returns how the tasks have ended, servers last.
std::vector<Error> stop_server(int stopped, const std::string& model_dir, const Chief& waits,
                               Seconds beat = Seconds(0.1)) {
  constexpr int kChief = 0, kTasks = 4, kFirstServer = 2, kSteps = 10;
  const LocalCluster cluster(kFirstServer, /*chief=*/true, kTasks - kFirstServer);
  const auto strategy =
      parameter_server({.heartbeat_interval = beat, .restart_timeout = Seconds(2)});
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

// The server asks every second, also while the checkpoint that it waits for is being written.
TEST(CoordinatorSaves, AServerThatAsksAgainMeanwhileGetsOneCheckpoint) {
  memory_store().clear();
  const auto waited = std::make_shared<std::atomic<bool>>(false);
  memory_store().on_request([waited](int64_t, const std::string& path) {
    constexpr auto kUntilItAsksAgain = std::chrono::milliseconds(2500);
    if (path.find("/model.ckpt-") == std::string::npos || waited->exchange(true)) return;
    // Long enough for the server to ask again, and for the chief to hear of it.
    std::this_thread::sleep_for(kUntilItAsksAgain);
  });
  ::testing::internal::CaptureStderr();
  // The last answer to a heartbeat is older than the checkpoint for a while.
  stop_server(
      0, "mem://asks/again",
      [](ClusterCoordinator& coordinator, const Program&) { coordinator.join(); }, Seconds(1));
  log::flush();
  const std::string told = ::testing::internal::GetCapturedStderr();
  memory_store().on_request({});
  memory_store().clear();
  const std::string saved = "for a server that was asked to stop";
  EXPECT_THAT(told, HasSubstr(saved));
  EXPECT_EQ(told.find(saved), told.rfind(saved)) << told;
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

// --- saves that a thread writes ---

// A chief, a worker and two servers. With `parts` servers write theirs; else the chief writes all.
void run_with_saves(const std::string& model_dir, bool parts, const Chief& chief) {
  const LocalCluster cluster(2, /*chief=*/true, /*servers=*/2);
  muster::testing::run_ranks(4, [&](int task) {
    const bool serves = task >= 2;
    Program program;
    ClusterCoordinator coordinator(
        parameter_server(),
        {.model_dir = serves && !parts ? model_dir + "_elsewhere" : model_dir,
         .cancelled = [] { return false; },
         .environment = serves ? cluster.server_environment(task - 2) : cluster.environment(task)});
    program.define(coordinator);
    if (!coordinator.serve()) chief(coordinator, program);
  });
}

// Without a thread the chief would wait for ever: for servers that write, or for its own file.
TEST(CoordinatorSaves, CallsAreMadeWhileACheckpointIsWritten) {
  const std::string dir = "mem://coordinator/held";
  const CheckpointManager checkpoints(dir);
  for (const bool parts : {true, false}) {
    muster::testing::HeldSave held(20);
    run_with_saves(dir, parts, [&](ClusterCoordinator& coordinator, const Program& program) {
      train_steps(coordinator, program, 10);
      EXPECT_EQ(coordinator.save({.asynchronous = true}), dir + "/model.ckpt-10");
      EXPECT_EQ(checkpoints.latest(), dir + "/model.ckpt-10") << "the first one waits";
      train_steps(coordinator, program, 10);
      const Checkpoint then = coordinator.state();
      EXPECT_EQ(coordinator.save({.asynchronous = true}), dir + "/model.ckpt-20");
      train_steps(coordinator, program, 5);
      EXPECT_EQ(coordinator.state().global_step, 25);
      EXPECT_EQ(checkpoints.latest(), dir + "/model.ckpt-10") << "nobody sees the next one";
      held.open();
      EXPECT_TRUE(coordinator.end_saving());
      const Checkpoint saved = checkpoints.load(dir + "/model.ckpt-20");
      for (const auto& [name, value] : then.tensors)
        EXPECT_TRUE(saved.tensors.at(name).equal(value)) << name;
      coordinator.save({.asynchronous = true});
    });
    EXPECT_EQ(checkpoints.latest(), dir + "/model.ckpt-25") << "the end waits for it";
  }
}

TEST(CoordinatorSaves, AThreadThatCannotWriteIsCountedAndEndsTheRun) {
  MemoryStore& store = memory_store();
  const std::string dir = "mem://coordinator/failing";
  const StorePlan full{.fail_from = 0, .only = [](const std::string& path) {
                         return path.ends_with(".safetensors");
                       }};
  const auto step_and_save = [](ClusterCoordinator& coordinator, const Program& program) {
    train_steps(coordinator, program, 1);
    coordinator.save({.max_failed_saves = 1, .asynchronous = true});
    return coordinator.end_saving();
  };
  const auto fails_once = [&](ClusterCoordinator& coordinator, const Program& program) {
    EXPECT_TRUE(step_and_save(coordinator, program));
    EXPECT_TRUE(step_and_save(coordinator, program));
    store.set_plan(full);
    EXPECT_FALSE(step_and_save(coordinator, program));
    EXPECT_EQ(CheckpointManager(dir).latest(), dir + "/model.ckpt-2");
    store.set_plan({});
    EXPECT_TRUE(step_and_save(coordinator, program));
  };
  ::testing::internal::CaptureStderr();
  store.clear();
  run_with_saves(dir, /*parts=*/true, fails_once);
  store.clear();
  run_alone({.model_dir = dir}, [&](ClusterCoordinator& coordinator, const Program& program) {
    fails_once(coordinator, program);
    store.set_plan(full);
    EXPECT_FALSE(step_and_save(coordinator, program));
    const Error error = error_of([&] { (void)step_and_save(coordinator, program); });
    EXPECT_THAT(error.message(), HasSubstr("2 saves in a row failed, and no more may"));
  });
  store.set_plan({});
  EXPECT_FALSE(take_late_error().has_value());
  run_alone({.model_dir = dir}, [&](ClusterCoordinator& coordinator, const Program& program) {
    train_steps(coordinator, program, 1);
    coordinator.save();
    store.set_plan(full);
    coordinator.save({.asynchronous = true});
  });
  EXPECT_TRUE(take_late_error().has_value()) << "of the save that no call has waited for";
  log::flush();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the run continues and retries at the next save (1 of 1 "));
  store.clear();
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
