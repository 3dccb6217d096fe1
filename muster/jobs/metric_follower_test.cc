#include "muster/jobs/metric_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/base/temp_directory.h"
#include "muster/files/testing/memory_store.h"
#include "muster/summary/event_writer.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class MetricFollowerTest : public ::testing::Test {
 protected:
  summary::EventWriter writer(const std::string& folder) {
    return {directory_ / folder, local_file_system(), system_clock()};
  }
  TempDirectory directory_;
};

TEST_F(MetricFollowerTest, ReadsWhatIsAddedWhileTheRunContinues) {
  MetricFollower follower(local_file_system(), directory_ / "run", "accuracy");
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/true), IsEmpty());
  auto events = writer("run");
  events.add_scalars({{"accuracy", 0.5}, {"loss", 2}}, 10);
  events.flush();
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/true), ElementsAre(Pair(10, 0.5)));
  events.add_scalar("accuracy", 0.25, 20);
  events.flush();
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/true), ElementsAre(Pair(10, 0.5), Pair(20, 0.25)));
  EXPECT_THAT(follower.names(), UnorderedElementsAre("accuracy", "loss"));
}

TEST_F(MetricFollowerTest, AnEvaluationIsMeantWhereTrainingHasTheSameTag) {
  MetricFollower follower(local_file_system(), directory_ / "run", "accuracy");
  auto training = writer("run");
  training.add_scalar("accuracy", 1, 10);
  training.flush();
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/false), IsEmpty());
  EXPECT_THAT(follower.measurements(/*ended=*/true), ElementsAre(Pair(10, 1)));
  auto evaluation = writer("run/eval");
  evaluation.add_scalar("accuracy", 0.5, 10);
  evaluation.flush();
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/false), ElementsAre(Pair(10, 0.5)));
}

TEST_F(MetricFollowerTest, AFolderChoosesBetweenTags) {
  for (const char* folder : {"run", "run/logs/train", "run/logs/validation"}) {
    auto events = writer(folder);
    events.add_scalar("loss", static_cast<double>(std::string(folder).size()), 1);
  }
  MetricFollower follower(local_file_system(), directory_ / "run", "logs/train/loss");
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/false), ElementsAre(Pair(1, 14)));
}

// As the hypertune package of Google's services writes it.
TEST_F(MetricFollowerTest, AReportCountsWhereNoEventFileHasTheMetric) {
  const auto report = [&](const std::string& text) {
    local_file_system().make_directories(directory_ / "run").value();
    local_file_system().write_atomically(directory_ / "run" + "/output.metrics", text).value();
  };
  const std::string line =
      R"({"global_step": "10", "accuracy": "0.5", "timestamp": 1525851440.1, "trial": "3"})";
  MetricFollower follower(local_file_system(), directory_ / "run", "accuracy");
  report(line + "\n" + R"({"accuracy": 0.25, "global_st)");
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/false), ElementsAre(Pair(10, 0.5)));
  // The file keeps the last lines; lines read before stay.
  report(R"({"accuracy": 0.25, "global_step": 20, "f1": "1"})");
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/false), ElementsAre(Pair(10, 0.5), Pair(20, 0.25)));
  EXPECT_THAT(follower.names(), UnorderedElementsAre("accuracy", "f1"));
  auto events = writer("run/eval");
  events.add_scalar("accuracy", 1, 10);
  events.flush();
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/false), ElementsAre(Pair(10, 1)));
}

TEST_F(MetricFollowerTest, ADamagedFileIsLeftAndOthersAreRead) {
  auto events = writer("run");
  events.add_scalar("loss", 3, 1);
  events.flush();
  local_file_system()
      .write_atomically(directory_ / "run/events.out.tfevents.1.a", "broken")
      .value();
  MetricFollower follower(local_file_system(), directory_ / "run", "loss");
  follower.read().value();
  follower.read().value();
  EXPECT_THAT(follower.measurements(/*ended=*/true), ElementsAre(Pair(1, 3)));
}

// A look that fails is an error, and the next one finds all.
TEST_F(MetricFollowerTest, ALookThatFailsIsNotTakenForNothing) {
  MemoryStore store;
  const std::string run = "mem://bucket/run";
  {
    summary::EventWriter events(run + "/eval", store, system_clock());
    events.add_scalar("accuracy", 0.5, 10);
  }
  for (int64_t at = 0;; ++at) {
    MetricFollower follower(store, run, "accuracy");
    store.set_plan({.fail_at = at, .writes_only = false});
    const Status read = follower.read();
    if (store.requests() <= at) break;
    EXPECT_FALSE(read.ok()) << at;
    follower.read().value();
    EXPECT_THAT(follower.measurements(/*ended=*/true), ElementsAre(Pair(10, 0.5))) << at;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
