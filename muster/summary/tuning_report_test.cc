#include "muster/summary/tuning_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::summary {
namespace {

using Values = std::vector<std::pair<std::string, double>>;

class TuningReportTest : public ::testing::Test {
 protected:
  void report(const Environment& environment, const std::string& folder, const Values& values,
              int64_t step) {
    report_to_tuner(environment, clock_, folder, values, step);
  }
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> all;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }

  TempDirectory directory_;
  const std::string path_ = directory_ / "made/output.metrics";
  const Environment trial_{{"CLOUD_ML_TRIAL_ID", "3"}, {"CLOUD_ML_HP_METRIC_FILE", path_}};
  ManualClock clock_{{.wall_seconds = 1525851440.5}};
};

// The fields and kinds that hypertune.report_hyperparameter_tuning_metric() writes.
TEST_F(TuningReportTest, IsWhatThePackageWrites) {
  report(trial_, "eval", {{"accuracy", 0.987}}, 1000);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0], nlohmann::json::parse(R"({"global_step": "1000", "accuracy": "0.987",
                                                  "timestamp": 1525851440.5, "trial": "3"})"));
}

TEST_F(TuningReportTest, AProcessThatIsNoTrialReportsNothing) {
  report({{"CLOUD_ML_HP_METRIC_FILE", path_}}, "eval", {{"accuracy", 1}}, 1);
  report(trial_.with("CLOUD_ML_TRIAL_ID", ""), "eval", {{"accuracy", 1}}, 1);
  EXPECT_FALSE(std::ifstream(path_).good());
}

TEST_F(TuningReportTest, TheTagChoosesAndFoldersTellEvaluationsApart) {
  report(trial_, "eval_test", {{"accuracy", 0.5}}, 1);
  report(trial_, "eval", {{"loss", std::numeric_limits<double>::infinity()}, {"accuracy", 0.75}},
         1);
  const Environment tagged = trial_.with("CLOUD_ML_HP_METRIC_TAG", "eval/loss");
  report(tagged, "eval", {{"accuracy", 1}, {"loss", 2}}, 2);
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_EQ(lines()[0]["eval_test/accuracy"], "0.5");
  EXPECT_EQ(lines()[1]["accuracy"], "0.75");
  EXPECT_EQ(lines()[2]["eval/loss"], "2");
  EXPECT_EQ(lines()[2]["global_step"], "2");
}

TEST_F(TuningReportTest, KeepsTheLastHundredLinesAlsoOfAProgramThatWasStartedAgain) {
  for (int64_t step = 1; step <= 130; ++step) report(trial_, "eval", {{"loss", 1}}, step);
  ASSERT_EQ(lines().size(), 100u);
  EXPECT_EQ(lines().front()["global_step"], "31");
  EXPECT_EQ(lines().back()["global_step"], "130");
}

TEST_F(TuningReportTest, AReportThatCannotBeWrittenEndsNothing) {
  std::ofstream(directory_ / "file").put('x');
  report(trial_.with("CLOUD_ML_HP_METRIC_FILE", directory_ / "file" + "/below"), "eval",
         {{"loss", 1}}, 1);
}

}  // namespace
}  // namespace muster::inline v0_1::summary
