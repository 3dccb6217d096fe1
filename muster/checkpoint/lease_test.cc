#include "muster/checkpoint/lease.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "muster/base/temp_directory.h"
#include "muster/checkpoint/internal/test_checkpoints.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::files;
using testing::make_checkpoint;

constexpr auto kNever = std::chrono::hours(24);  // a beat that no test sees

// A lease as a process elsewhere has written it.
void write_foreign(const std::string& model_dir, int beats, const std::string& more = {}) {
  files()
      .write_atomically(
          join_path(model_dir, "far.lease"),
          fmt::format(R"({{"holder":"far","id":"1","space":"","process":7,"beats":{},"pinned":[],)"
                      R"("note":""{}}})",
                      beats, more))
      .value();
}

struct WatchTest : ::testing::Test {
  TempDirectory directory;
  ManualClock clock;
  LeaseWatch watch{directory.path(), "far", files(), clock};
};

TEST_F(WatchTest, SeesWhatTheHolderSaysAndItsEnd) {
  EXPECT_FALSE(watch.look());
  {
    Lease lease(directory.path(), "far", {.holder = "me", .pinned = {"model.ckpt-3"}});
    EXPECT_EQ(watch.look(), (LeaseContent{.holder = "me", .pinned = {"model.ckpt-3"}}));
    lease.change([](LeaseContent& content) {
      content.pinned_from = 4;
      content.note = "\"quoted\"\n";
    });
    EXPECT_EQ(watch.look(), (LeaseContent{"me", {"model.ckpt-3"}, 4, "\"quoted\"\n"}));
  }
  EXPECT_FALSE(watch.look());
  EXPECT_TRUE(files().list_directory(directory.path()).value().empty());
}

TEST_F(WatchTest, AFileThatDoesNotChangeForAMinuteIsDeadUntilItChanges) {
  write_foreign(directory.path(), 1);
  EXPECT_TRUE(watch.look());
  clock.advance(LeaseWatch::kHeartbeatTimeout - 1s);
  EXPECT_TRUE(watch.look());
  clock.advance(1s);
  EXPECT_FALSE(watch.look());
  EXPECT_EQ(watch.last().holder, "far");
  write_foreign(directory.path(), 2);
  EXPECT_TRUE(watch.look());
  // It continues to beat while no watcher looks.
  clock.advance(10 * LeaseWatch::kHeartbeatTimeout);
  write_foreign(directory.path(), 99);
  EXPECT_TRUE(watch.look());
}

TEST_F(WatchTest, AnOldFileThatIsSeenForTheFirstTimeIsDead) {
  write_foreign(directory.path(), 1);
  ManualClock later({.wall_seconds = system_clock().wall_seconds() + 601});
  LeaseWatch other(directory.path(), "far", files(), later);
  EXPECT_FALSE(other.look());
  write_foreign(directory.path(), 2);
  EXPECT_TRUE(other.look()) << "clocks of machines may differ: it does change";
}

TEST_F(WatchTest, AProcessOfThisMachineThatIsGoneIsDeadAtOnce) {
  const pid_t child = fork();
  if (child == 0) {
    Lease lease(directory.path(), "far", {.holder = "child"});
    _exit(0);  // as kill -9: the file stays
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(files().exists(directory / "far.lease").value());
  EXPECT_FALSE(watch.look());
}

TEST_F(WatchTest, HalfAFileIsAliveForAsLongAsOneThatSaysNothingNew) {
  write_foreign(directory.path(), 1, R"(,"pinned_from":9)");
  EXPECT_EQ(watch.look()->pinned_from, 9);
  testing::overwrite(directory / "far.lease", "{\"holder\": \"fa");
  EXPECT_EQ(watch.look()->pinned_from, 9);
  clock.advance(LeaseWatch::kHeartbeatTimeout);
  EXPECT_FALSE(watch.look());
}

TEST_F(WatchTest, ABeatChangesTheFileAndAsksBefore) {
  std::atomic<int> asked{0};
  Lease lease(directory.path(), "far", {.holder = "me"},
              {.beat = 1ms, .before_beat = [&](LeaseContent& content) {
                 content.note = std::to_string(++asked);
               }});
  // The lease beats on a thread of its own, by the system's clock.
  const auto until = std::chrono::steady_clock::now() + 30s;
  const auto wait_for = [&](int beats) {
    while (asked < beats && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(1ms);
    ASSERT_GE(asked, beats);
  };
  wait_for(3);
  const std::string once = files().read_file(directory / "far.lease").value();
  const int before = asked;
  wait_for(before + 2);
  EXPECT_NE(files().read_file(directory / "far.lease").value(), once);
}

TEST(LeaseTest, ABeatInABucketIsTwoRequests) {
  MemoryStore store;
  Lease lease("mem://bucket/run", "far", {.holder = "me"}, {.fs = &store, .beat = kNever});
  store.set_plan({.writes_only = false});
  lease.change([](LeaseContent&) {});  // as a beat does
  EXPECT_EQ(store.requests(), 2);
}

TEST_F(WatchTest, AHolderThatWasTakenForDeadLosesTheName) {
  Lease first(directory.path(), "far", {.holder = "first"}, {.beat = kNever});
  EXPECT_FALSE(first.lost());
  {
    Lease second(directory.path(), "far", {.holder = "second"}, {.beat = kNever});
    first.change([](LeaseContent& content) { content.note = "still here"; });
    EXPECT_TRUE(first.lost());
    EXPECT_FALSE(second.lost());
    EXPECT_EQ(watch.look()->holder, "second");
  }
  EXPECT_FALSE(watch.look());
}

TEST_F(WatchTest, LastWordsStay) {
  {
    Lease lease(directory.path(), "far", {.holder = "me"}, {.beat = 1ms});
    lease.change([](LeaseContent& content) { content.note = "farewell"; });
    lease.leave_behind();
  }
  (void)watch.look();
  EXPECT_EQ(watch.last().note, "farewell");
}

// --- leases and the manager ---

std::vector<int64_t> steps_in(const std::string& model_dir) {
  std::vector<int64_t> steps;
  for (const std::string& name : files().list_directory(model_dir).value()) {
    if (const int64_t step = checkpoint_step(name); step >= 0) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

TEST(LeasedCheckpointsTest, StayUntilTheirLeaseLetsThemGo) {
  TempDirectory directory;
  CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 1});
  manager.save(make_checkpoint(1));
  {
    Lease lease(directory.path(), "reader", {.pinned = {"model.ckpt-1"}});
    manager.save(make_checkpoint(2));
    manager.save(make_checkpoint(3));
    EXPECT_THAT(steps_in(directory.path()), ElementsAre(1, 3));
    // A run does not continue from it.
    EXPECT_EQ(manager.all().size(), 1u);
    lease.change([](LeaseContent& content) { content = {.pinned_from = 3}; });
    manager.save(make_checkpoint(4));
    manager.save(make_checkpoint(5));
    EXPECT_THAT(steps_in(directory.path()), ElementsAre(3, 4, 5));
  }
  manager.save(make_checkpoint(6));
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(6));
}

TEST(LeasedCheckpointsTest, TheLastHolderMayTidyUp) {
  TempDirectory directory;
  CheckpointManager saves(directory.path(), {.keep_checkpoint_max = 1});
  CheckpointManager reads(directory.path(), {.keep = [](const std::string& prefix) {
                            return checkpoint_step(prefix) == 2;
                          }});
  {
    Lease lease(directory.path(), "reader", {.pinned_from = 0});
    for (const int64_t step : {1, 2, 3}) saves.save(make_checkpoint(step));
    reads.tidy();
    EXPECT_THAT(steps_in(directory.path()), ElementsAre(1, 2, 3));
  }
  reads.tidy();
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(2, 3));
  saves.save(make_checkpoint(4));
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(4));
}

TEST(LeasedCheckpointsTest, ALeaseOfADeadReaderPinsForAMinute) {
  TempDirectory directory;
  ManualClock clock;
  CheckpointManager manager(directory.path(), {.clock = &clock, .keep_checkpoint_max = 1});
  write_foreign(directory.path(), 1, R"(,"pinned_from":0)");
  for (const int64_t step : {1, 2}) manager.save(make_checkpoint(step));
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(1, 2));
  clock.advance(LeaseWatch::kHeartbeatTimeout);
  manager.save(make_checkpoint(3));
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(3));
}

// A process that releases a checkpoint has published its metric before.
TEST(LeasedCheckpointsTest, LeasesAreLookedAtBeforeKeepIsAsked) {
  TempDirectory directory;
  std::optional<Lease> lease;
  lease.emplace(directory.path(), "reader", LeaseContent{.pinned_from = 0});
  bool held = false;
  CheckpointManager manager(directory.path(),
                            {.keep_checkpoint_max = 1, .keep = [&](const std::string&) {
                               held = lease.has_value();
                               return true;
                             }});
  for (const int64_t step : {1, 2}) manager.save(make_checkpoint(step));
  EXPECT_FALSE(held) << "what a lease holds needs no other reason";
  EXPECT_THAT(steps_in(directory.path()), ElementsAre(1, 2));
}

}  // namespace
}  // namespace muster::inline v0_1
