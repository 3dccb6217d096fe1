#include "muster/train/internal/live_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/await.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"
#include "muster/plan/activity.h"
#include "muster/plan/measure_source.h"
#include "muster/plan/save_in_flight.h"
#include "muster/summary/live_status.h"
#include "muster/tensor/device_library.h"
#include "muster/train/internal/device_memory.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1::internal {
namespace {

using summary::LiveStatus;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

const distribute::ReplicaPlace kWorker{.process = 1, .processes = 2, .task = "worker 1"};
constexpr Seconds kOften{0.002};

// A variable of the environment as long as it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_{};
};

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
  live.tell({.last_step = 90, .measures = {{"staleness/worker_1/mean", 2}}});
  LiveStatus now;
  {
    const plan::SaveInFlight save(6);
    await([&] {
      const auto all = statuses(dir);
      return all.size() == 1 && all[0].saving == 6 && all[0].last_step == 90;
    });
    now = statuses(dir)[0];
  }
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

// A start that was killed, failed or stopped goes on in the next one. One that ended well does not.
TEST(LiveTask, ARestartContinuesTheSharesOfTheWholeRun) {
  const TempDirectory dir;
  const auto seconds_of_start = [&](const char* end) {
    const plan::ActivityScope scope(kWorker.name(), live_run_name(dir.path(), kWorker));
    plan::this_activity().enter(plan::Activity::kCompute,
                                std::chrono::steady_clock::now() - std::chrono::seconds(100));
    LiveTask live({.model_dir = dir.path(), .every = kOften}, kWorker);
    plan::this_activity().enter(plan::Activity::kInput);
    const auto before = file_systems().read_file(summary::live_path(dir.path(), "worker 1"));
    await([&] {
      const auto now = file_systems().read_file(summary::live_path(dir.path(), "worker 1"));
      return now.ok() && (!before.ok() || now.value() != before.value());
    });
    live.end(nullptr);
    LiveStatus status = statuses(dir).at(0);
    // As another process would have left it.
    status.end = end;
    --status.pid;
    EXPECT_TRUE(write_live_status(file_systems(), dir.path(), status).ok());
    return std::pair(status.replicas.at(0).whole.of(plan::Activity::kCompute),
                     status.earlier_starts);
  };
  EXPECT_NEAR(seconds_of_start("failed").first, 100, 1);
  const auto [second, earlier] = seconds_of_start("");
  EXPECT_NEAR(second, 200, 1);
  EXPECT_EQ(earlier, 1);
  const auto third = seconds_of_start("ended");
  EXPECT_NEAR(third.first, 300, 1);
  EXPECT_EQ(third.second, 2);
  const auto fourth = seconds_of_start("stopped");
  EXPECT_NEAR(fourth.first, 100, 1);
  EXPECT_EQ(fourth.second, 0);
}

class MemoryOfStandIn final : public DeviceLibrary {
 public:
  explicit MemoryOfStandIn(std::vector<std::optional<DeviceMemory>> devices)
      : devices_(std::move(devices)) {}
  int count() override { return static_cast<int>(devices_.size()); }
  int join() override { return count(); }
  void run_recorded(int) override {}
  int64_t compilations() override { return 0; }
  int64_t runs() override { return 0; }
  void seed(int, uint64_t) override {}
  std::optional<DeviceMemory> memory(int device) override {
    if (device > 2) throw std::runtime_error("no such device");
    return devices_.at(static_cast<size_t>(device));
  }

 private:
  const std::vector<std::optional<DeviceMemory>> devices_;
};

TEST(LiveTask, TheMemoryOfDevicesOfALibraryIsAddedUpWhereItIsKnown) {
  MemoryOfStandIn two({DeviceMemory{.used = 5, .most = 6, .limit = 100},
                       DeviceMemory{.used = 7, .most = 9, .limit = 100}});
  const auto sum = memory_of_devices(two);
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->used, 12);
  EXPECT_EQ(sum->reserved, 200);
  MemoryOfStandIn unknown({DeviceMemory{.used = 5}, std::nullopt});
  EXPECT_FALSE(memory_of_devices(unknown));
  MemoryOfStandIn failing(std::vector(4, std::optional(DeviceMemory{.used = 1})));
  EXPECT_FALSE(memory_of_devices(failing));
  EXPECT_FALSE(memory_of_devices(Device("cpu")));
}

TEST(LiveTask, AShortRunAndARunWithoutAPlaceLeaveNothing) {
  const TempDirectory dir;
  { const LiveTask live({.model_dir = dir.path(), .every = Seconds(3600)}, kWorker); }
  LiveTask off({.model_dir = dir.path(), .every = Seconds(0)}, kWorker);
  EXPECT_FALSE(off.wants_news());
  off.tell({});
  LiveTask nowhere({.every = kOften}, kWorker);
  LiveTask second({.model_dir = dir.path(), .every = kOften},
                  {.local = 1, .locals = 2, .task = "worker 1"});
  EXPECT_FALSE(nowhere.wants_news() || second.wants_news());
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

// Each file is a request to the store, which costs money.
TEST(LiveTask, WritesToABucketLessOften) {
  MemoryStore store;
  LiveTask live({.model_dir = "s3://bucket/run",
                 .fs = &store,
                 .every = kOften,
                 .every_in_store = Seconds(0.004)},
                kWorker);
  const auto seen = [&] { return summary::read_live_statuses(store, "s3://bucket/run"); };
  await([&] { return !seen().empty(); });
  EXPECT_EQ(seen()[0].every, 0.004);
  // A store that does not answer for a while.
  store.set_plan({.fail_from = 0});
  await([&] { return store.requests() > 2; });
  store.set_plan({});
  live.end(nullptr);
  EXPECT_THAT(seen(), ElementsAre(Field(&LiveStatus::end, "ended")));
}

TEST(TaskWatch, ShowsARunFromItsFirstTrainingOn) {
  const TempDirectory dir;
  const ScopedVariable often("MUSTER_LIVE_SECONDS", "0.002");
  TaskWatch watch({.place = kWorker, .watchdog = 30});
  plan::ListedActivity record("worker 1", watch.run());
  const plan::ActivityScope other("worker 0", "another run");
  const plan::MeasureSource measures([] { return plan::Measures{{"connections", 3}}; });
  watch.show_in(dir / "first");
  watch.show_in(dir / "second");
  watch.begin(/*trains=*/false);
  record.end_step(5);
  watch.begin(/*trains=*/true);
  const auto seen = [&] { return summary::read_live_statuses(file_systems(), dir / "first"); };
  await([&] { return !seen().empty(); });
  await([&] {
    watch.tell(100);
    return seen()[0].last_step == 100;
  });
  const LiveStatus now = seen()[0];
  EXPECT_EQ(now.measures.at("connections"), 3);
  ASSERT_THAT(now.replicas, SizeIs(1));
  EXPECT_EQ(now.replicas[0].step, 5);
  const Error error(ErrorKind::kCancelled, "stopped by SIGTERM");
  watch.end(&error);
  EXPECT_EQ(seen()[0].end, "stopped");
  EXPECT_FALSE(file_systems().exists(dir / "second").value());
}

// It would take the place of a run that trains there, unless somebody asks for it.
TEST(TaskWatch, AnEvaluationIsShownWhereSomebodyAsksForIt) {
  const TempDirectory dir;
  const ScopedVariable often("MUSTER_LIVE_SECONDS", "0.002");
  const auto in = [&](const std::string& name) {
    return summary::read_live_statuses(file_systems(), dir / name);
  };
  {
    TaskWatch hidden({.place = kWorker});
    hidden.show_in(dir / "model");
    hidden.begin(/*trains=*/false);
    const ScopedVariable asked("MUSTER_LIVE_DIR", dir / "asked");
    TaskWatch evaluation({.place = kWorker});
    evaluation.show_in(dir / "model");
    evaluation.begin(/*trains=*/false);
    await([&] { return !in("asked").empty(); });
    evaluation.end(nullptr);
  }
  EXPECT_THAT(in("asked"), ElementsAre(Field(&LiveStatus::end, "ended")));
  EXPECT_THAT(in("model"), IsEmpty());
}

}  // namespace
}  // namespace muster::inline v0_1::internal
