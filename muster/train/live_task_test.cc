#include "muster/train/internal/live_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "muster/base/await.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/files/file_systems.h"
#include "muster/plan/activity.h"
#include "muster/summary/live_status.h"

namespace muster::inline v0_1::internal {
namespace {

using summary::LiveStatus;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

const distribute::ReplicaPlace kWorker{.process = 1, .processes = 2, .task = "worker 1"};
constexpr Seconds kOften{0.002};

std::vector<LiveStatus> statuses(const TempDirectory& dir) {
  return summary::read_live_statuses(file_systems(), dir.path());
}

TEST(LiveTask, TellsWhatItsReplicaDoesUntilTheEnd) {
  const TempDirectory dir;
  const plan::ActivityScope other("worker 1", "another run of this process");
  const plan::ActivityScope scope(kWorker.name(), live_run_name(dir.path(), kWorker));
  LiveTask live({.model_dir = dir.path(), .every = kOften}, kWorker);
  log::info("a line of the log");
  plan::this_activity().end_step(7);
  plan::this_activity().enter(plan::Activity::kInput);
  await([&] { return live.wants_news(); });
  live.tell({.last_step = 90, .saving = 6, .measures = {{"staleness/worker_1/mean", 2}}});
  await([&] {
    const auto all = statuses(dir);
    return all.size() == 1 && all[0].saving == 6;
  });
  const LiveStatus now = statuses(dir)[0];
  EXPECT_EQ(now.task, "worker 1");
  EXPECT_EQ(now.processes, 2);
  EXPECT_EQ(now.last_step, 90);
  EXPECT_EQ(now.measures.at("staleness/worker_1/mean"), 2);
  EXPECT_GT(now.memory, 1 << 20);
  EXPECT_THAT(now.command, Not(IsEmpty()));
  EXPECT_EQ(now.log.back().text, "a line of the log");
  EXPECT_EQ(now.end, "");
  ASSERT_THAT(now.replicas, SizeIs(1));
  EXPECT_EQ(now.replicas[0].step, 7);
  EXPECT_EQ(now.replicas[0].activity, plan::Activity::kInput);
  const Error error(ErrorKind::kPeerLost, "worker 0 is gone");
  live.end(&error);
  live.end(nullptr);  // too late
  const LiveStatus last = statuses(dir)[0];
  EXPECT_EQ(last.end, "failed");
  EXPECT_EQ(last.error, "worker 0 is gone");
  EXPECT_EQ(last.exit_code, 138);
  EXPECT_EQ(last.saving, -1);
}

TEST(LiveTask, AShortRunAndARunWithoutAPlaceLeaveNothing) {
  const TempDirectory dir;
  { const LiveTask live({.model_dir = dir.path(), .every = Seconds(3600)}, kWorker); }
  LiveTask off({.model_dir = dir.path(), .every = Seconds(0)}, kWorker);
  EXPECT_FALSE(off.wants_news());
  off.tell({});
  LiveTask nowhere({.every = kOften}, kWorker);
  LiveTask bucket({.model_dir = "s3://bucket/run", .every = kOften}, kWorker);
  LiveTask second({.model_dir = dir.path(), .every = kOften},
                  {.local = 1, .locals = 2, .task = "worker 1"});
  EXPECT_FALSE(nowhere.wants_news() || bucket.wants_news() || second.wants_news());
  EXPECT_THAT(file_systems().list_directory(dir.path()).value(), IsEmpty());
}

// The disk is full for a while: the run does not notice, and the view comes back.
TEST(LiveTask, AFullDiskIsTriedAgain) {
  const TempDirectory dir;
  FaultFileSystem full(file_systems(), {.no_space_from = 0});
  LiveTask live({.model_dir = dir.path(), .fs = &full, .every = kOften}, kWorker);
  await([&] { return full.operations() > 20; });
  EXPECT_THAT(statuses(dir), IsEmpty());
  full.set_plan({});
  await([&] { return !statuses(dir).empty(); });
  live.end(nullptr);
  EXPECT_THAT(statuses(dir), ElementsAre(Field(&LiveStatus::end, "ended")));
}

// A file system that does not answer, as a server of files that is gone.
class StuckFiles final : public FaultFileSystem {
 public:
  StuckFiles() : FaultFileSystem(file_systems()) {}
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override {
    std::unique_lock lock(mutex_);
    stuck_ = true;
    changed_.wait(lock, [&] { return answers_; });
    return FaultFileSystem::open_writer(path);
  }
  bool stuck() {
    const std::lock_guard lock(mutex_);
    return stuck_;
  }
  void answer() {
    const std::lock_guard lock(mutex_);
    answers_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stuck_ = false, answers_ = false;
};

TEST(LiveTask, ADiskThatDoesNotAnswerHoldsUpNobody) {
  const TempDirectory dir;
  StuckFiles files;
  LiveTask live({.model_dir = dir.path(), .fs = &files, .every = kOften, .patience = Seconds(0.01)},
                kWorker);
  await([&] { return files.stuck(); });
  live.tell({.last_step = 3});
  live.end(nullptr);
  EXPECT_THAT(statuses(dir), IsEmpty());
  files.answer();
  // The thread uses `files` until it has written its last file.
  await([&] { return !statuses(dir).empty() && statuses(dir)[0].end == "ended"; });
  await([&] { return file_systems().list_directory(dir / "live").value().size() == 1; });
}

}  // namespace
}  // namespace muster::inline v0_1::internal
