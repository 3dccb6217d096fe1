#include "muster/jobs/search_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error_of.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/number_text.h"
#include "muster/jobs/search_report.h"
#include "muster/summary/event_writer.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

// Trials that measure once with every look: -(x - 3)^2, which is best at x = 3, times how far they
// have come. They end after five measurements.
class PretendedTrials : public TrialHost {
 public:
  void start(int number, const JobSpec& job) override {
    if (fails.contains(number)) throw invalid_argument("no machine is free", "wait");
    jobs.emplace(number, job);
    std::string x = job.args.back();
    double value = 0;
    formats::parse_number(x.substr(x.find('=') + 1), &value);
    x_[number] = value;
    most_ = std::max<size_t>(most_, x_.size() - ended_);
  }
  std::optional<int> exit_code(int number) override {
    const int64_t step = ++steps_[number];
    if (step <= 5 && !stopped.contains(number) && !silent) {
      summary::EventWriter events(jobs.at(number).job_dir + "/eval", local_file_system(),
                                  system_clock());
      const double x = x_.at(number);
      events.add_scalar("score", -(x - 3) * (x - 3) * 5.0 / static_cast<double>(step), step);
    }
    if (step <= 5 && !stopped.contains(number)) return std::nullopt;
    ++ended_;
    return stopped.contains(number) ? 143 : codes[number];
  }
  std::string last_words(int number) override { return words[number]; }
  std::string log_of(int number) const override { return "log " + std::to_string(number); }
  void stop(int number) override { stopped.insert(number); }

  size_t most_at_a_time() const { return most_; }

  std::set<int> fails, stopped;
  std::map<int, int> codes;
  std::map<int, std::string> words;
  std::map<int, JobSpec> jobs;
  bool silent = false;

 private:
  std::map<int, double> x_;
  std::map<int, int64_t> steps_;
  size_t ended_ = 0, most_ = 0;
};

class SearchRunTest : public ::testing::Test {
 protected:
  SearchRunTest() {
    job_.name = "fit";
    job_.args = {"--epochs=2"};
    job_.pools = {{.role = "chief", .count = 1}};
    job_.job_dir = directory_ / "search";
    job_.search = {.parameters = {{.name = "x",
                                   .type = HyperParameter::Type::kInteger,
                                   .min_value = 0,
                                   .max_value = 8}},
                   .max_trials = 9,
                   .max_parallel_trials = 2,
                   .metric_tag = "score",
                   .algorithm = HyperParameterSearch::Algorithm::kGrid};
  }
  Search run(TrialHost& host, SearchOptions options = {}) {
    return run_search(job_, host, local_file_system(), clock_, options);
  }
  std::string read(const std::string& name) const {
    return local_file_system().read_file(job_.job_dir + "/" + name).value();
  }

  TempDirectory directory_;
  ManualClock clock_{{.sleep_advances = true}};
  JobSpec job_;
};

TEST_F(SearchRunTest, FindsTheBestAndTellsOfAll) {
  PretendedTrials trials;
  const Search search = run(trials);
  EXPECT_TRUE(search.done());
  EXPECT_EQ(search.trials().size(), 9u);
  EXPECT_EQ(search.best()->values.at("x"), "3");
  EXPECT_EQ(trials.most_at_a_time(), 2u);
  EXPECT_THAT(trials.jobs.at(4).args, ElementsAre("--epochs=2", "--x=3"));
  EXPECT_EQ(trials.jobs.at(4).job_dir, directory_ / "search/4");
  EXPECT_EQ(trials.jobs.at(4).name, "fit-4");
  EXPECT_THAT(trials.jobs.at(4).pools[0].environment, Contains(Pair("CLOUD_ML_TRIAL_ID", "4")));
  EXPECT_FALSE(trials.jobs.at(4).search);
  EXPECT_THAT(search_table(search), AllOf(HasSubstr("trial"), HasSubstr("score")));
  const std::string picture =
      local_file_system().read_file(directory_ / "search/search.svg").value();
  EXPECT_THAT(picture, AllOf(StartsWith("<svg"), HasSubstr("9 trials"), HasSubstr("trial 4:")));
}

TEST_F(SearchRunTest, BadTrialsAreStoppedAndTheBestIsNot) {
  job_.search->algorithm = HyperParameterSearch::Algorithm::kDefault;
  job_.search->max_parallel_trials = 9;
  PretendedTrials trials;
  const Search search = run(trials);
  EXPECT_EQ(search.best()->values.at("x"), "3");
  EXPECT_EQ(search.best()->state, TrialState::kDone);
  EXPECT_GE(trials.stopped.size(), 6u);
  for (const int number : trials.stopped)
    EXPECT_EQ(search.trial(number).state, TrialState::kStopped);
}

TEST_F(SearchRunTest, AnInterruptedSearchContinues) {
  PretendedTrials before, after;
  int looks = 0;
  const Search first = run(before, {.interrupted = [&] { return ++looks > 10; }});
  EXPECT_FALSE(first.done());
  EXPECT_EQ(first.running(), 0);
  EXPECT_EQ(std::ranges::count(first.trials(), TrialState::kInterrupted, &Trial::state), 2);
  const Search second = run(after);
  EXPECT_EQ(second.trials().size(), 9u);
  EXPECT_EQ(second.best()->values.at("x"), "3");
  // Trials that had ended are not run again, trials that ran are.
  for (const Trial& trial : first.trials())
    EXPECT_EQ(after.jobs.contains(trial.number), trial.state == TrialState::kInterrupted);
}

TEST_F(SearchRunTest, FailuresAreReportedAndTheOthersContinue) {
  PretendedTrials trials;
  trials.fails = {1};
  trials.codes[2] = 2;
  const Search search = run(trials);
  EXPECT_EQ(search.trial(1).failure, "no machine is free");
  EXPECT_EQ(search.trial(2).failure, "exit code 2");
  EXPECT_EQ(search.best()->values.at("x"), "3");
}

TEST_F(SearchRunTest, AFailureIsToldWithTheProgramsWordsAndItsLog) {
  PretendedTrials trials;
  trials.codes[2] = 1;
  trials.words[2] = "error: the disk is full";
  const Search search = run(trials);
  EXPECT_EQ(search.trial(2).failure, "exit code 1: error: the disk is full");
  EXPECT_THAT(search_table(search), HasSubstr("failed: exit code 1: error: the disk is full"));
  const nlohmann::json saved =
      parse_json(read("search.json"), "search.json").value().at("trials").at(1);
  EXPECT_EQ(saved.at("failure"), search.trial(2).failure);
  EXPECT_EQ(saved.at("exit_code"), 1);
  EXPECT_EQ(saved.at("log"), "log 2");
}

TEST_F(SearchRunTest, TheTableSaysWhatIsLongOrTheSameOnlyOnce) {
  PretendedTrials trials;
  for (const int number : {2, 3}) {
    trials.codes[number] = 1;
    trials.words[number] = "error: " + std::string(200, 'o');
  }
  const std::string table = search_table(run(trials));
  EXPECT_THAT(table, AllOf(HasSubstr("failed: exit code 1: error: ooo"), HasSubstr("ooo...\n"),
                           HasSubstr("failed, as trial 2\n")));
  for (const std::string& line : split(table, '\n')) EXPECT_LE(line.size(), 120u) << line;
}

// After mending the cause outside, such as a folder of data, the user gives the same command again.
TEST_F(SearchRunTest, AWrongCommandLineEndsTheSearchAndTheSameCommandTriesOnceMore) {
  PretendedTrials wrong, right;
  wrong.silent = true;
  for (int number = 1; number <= 9; ++number) {
    wrong.codes[number] = 2;
    wrong.words[number] = "error: --lr is not a flag";
  }
  const Search first = run(wrong);
  EXPECT_EQ(first.trials().size(), 2u);  // trials that ran at the same time
  ASSERT_NE(first.refused(), nullptr);
  EXPECT_THAT(first.gave_up(),
              AllOf(HasSubstr("trial 1 "), HasSubstr("exit code 2: error: --lr is not a flag")));
  const Search second = run(right);
  EXPECT_EQ(second.gave_up(), "");
  EXPECT_EQ(right.jobs.size(), 9u);
  EXPECT_EQ(second.best()->values.at("x"), "3");
}

// As with Google's service: a trial that failed while others did not has its result.
TEST_F(SearchRunTest, AFailedTrialStaysFailedInASearchThatContinues) {
  PretendedTrials before, after;
  before.codes[1] = 1;
  int looks = 0;
  const Search first = run(before, {.interrupted = [&] { return ++looks > 14; }});
  ASSERT_FALSE(first.done());
  ASSERT_EQ(first.trial(1).state, TrialState::kFailed);
  const Search second = run(after);
  EXPECT_TRUE(second.done());
  EXPECT_FALSE(after.jobs.contains(1));
  EXPECT_EQ(second.trial(1), first.trial(1));
}

// After a mistyped argument the user keeps the folder, and no file is deleted.
TEST_F(SearchRunTest, ASearchBeginsAfterOneThatMeasuredNothing) {
  PretendedTrials wrong, right;
  wrong.silent = true;
  for (int number = 1; number <= 9; ++number) wrong.codes[number] = 2;
  job_.program = {"/bin/train"};
  const Search first = run(wrong);
  ASSERT_EQ(first.next(), 3);
  job_.args = {"--epoch=2"};
  job_.search->metric_tag = "score";
  EXPECT_EQ(known_search(job_, local_file_system(), 1).first(), 3);
  // Even if it is killed at once, it has the folder.
  const Search none = run(right, {.interrupted = [] { return true; }});
  EXPECT_TRUE(none.trials().empty());
  EXPECT_TRUE(right.jobs.empty());
  // Earlier files are removed from the folder, below which everything is compared.
  EXPECT_THAT(local_file_system().list_directory(job_.job_dir).value(),
              ElementsAre("before", "search.json", "search.svg"));
  EXPECT_THAT(local_file_system().list_directory(job_.job_dir + "/before").value(),
              ElementsAre("1", "2"));
  const Search second = run(right);
  EXPECT_EQ(second.first(), 3);
  EXPECT_EQ(second.last(), 11);
  EXPECT_EQ(second.trials().size(), 9u);
  EXPECT_EQ(second.best()->values.at("x"), "3");
  // The trial in the fourth place.
  EXPECT_EQ(second.best()->number, 6);
  EXPECT_EQ(right.jobs.at(6).job_dir, directory_ / "search/6");
  EXPECT_EQ(right.jobs.begin()->first, 3);
  EXPECT_TRUE(second.done());
  EXPECT_THAT(search_table(second), HasSubstr("   11 "));
  // It continues like any other search.
  job_.search->max_trials = 9;
  EXPECT_EQ(run(right).trials(), second.trials());
  job_.args = {"--epoch=3"};
  EXPECT_THAT(message_of([&] { (void)run(right); }), HasSubstr("holds a search that runs"));
}

// Whatever else differs, seed and ranges.
TEST_F(SearchRunTest, AnotherSearchBeginsAfterOneThatMeasuredNothing) {
  PretendedTrials trials;
  trials.silent = true;
  const int failed = run(trials).next();
  job_.search->parameters[0].max_value = 5;
  job_.search->metric_tag = "eval/score";
  PretendedTrials others;
  const Search second = run(others, {.seed = 7});
  EXPECT_EQ(second.first(), failed);
  EXPECT_EQ(second.seed(), 7u);
  EXPECT_EQ(second.trials().size(), 6u);
  EXPECT_EQ(second.best()->values.at("x"), "3");
}

// A trial that cannot be stopped now is stopped later, and the others are stopped.
TEST_F(SearchRunTest, AHostThatCannotStopATrialEndsNoSearch) {
  class Stubborn : public PretendedTrials {
   public:
    void stop(int number) override {
      if (asked.insert(number).second) throw Error(ErrorKind::kUnavailable, "it is away", "");
      PretendedTrials::stop(number);
    }
    std::set<int> asked;
  };
  job_.search->algorithm = HyperParameterSearch::Algorithm::kDefault;
  job_.search->max_parallel_trials = 9;
  Stubborn trials;
  const Search search = run(trials);
  EXPECT_EQ(search.best()->values.at("x"), "3");
  EXPECT_EQ(trials.asked, trials.stopped);
  EXPECT_GE(trials.stopped.size(), 5u);
}

TEST_F(SearchRunTest, AFolderOfAnotherProgramOrOtherArgumentsIsRefused) {
  PretendedTrials trials;
  job_.program = {"/bin/train"};
  (void)run(trials);
  const std::vector<std::string> before = job_.args;
  job_.args.push_back("--data_dir=else where");
  EXPECT_THAT(message_of([&] { (void)run(trials); }),
              AllOf(HasSubstr("holds a search that runs /bin/train --epochs=2, and"),
                    HasSubstr("runs /bin/train --epochs=2 '--data_dir=else where'")));
  EXPECT_EQ(error_of([&] { (void)run(trials); }).hint(),
            "it began with no '--data_dir=else where': give the same again, or another --job-dir");
  job_.args = {"--epochs=3"};
  EXPECT_THAT(error_of([&] { (void)run(trials); }).hint(),
              StartsWith("it began with --epochs=2, and no --epochs=3: "));
  job_.args = before;
  job_.program = {"/bin/other"};
  EXPECT_THAT(message_of([&] { (void)run(trials); }), HasSubstr("/bin/other --epochs=2"));
  // More trials, and more at a time, are the same search.
  job_.program = {"/bin/train"};
  job_.search->max_parallel_trials = 3;
  EXPECT_EQ(run(trials).trials().size(), 9u);
}

// Programs for Google's service report in a file; variables name the file and the metric.
TEST_F(SearchRunTest, TrialsFindOutWhereAndWhatToReport) {
  job_.pools[0].environment = {{"CLOUD_ML_HP_METRIC_FILE", "/mine"}};
  job_.pools.push_back({.role = "worker", .count = 1});
  const JobSpec one = trial_job(job_, {.number = 4});
  EXPECT_THAT(one.pools[0].environment, Contains(Pair("CLOUD_ML_HP_METRIC_FILE", "/mine")));
  EXPECT_THAT(one.pools[1].environment,
              ::testing::UnorderedElementsAre(
                  Pair("CLOUD_ML_TRIAL_ID", "4"), Pair("CLOUD_ML_HP_METRIC_TAG", "score"),
                  Pair("CLOUD_ML_HP_METRIC_FILE", job_.job_dir + "/4/output.metrics")));
  job_.job_dir = "gs://bucket/search";
  EXPECT_THAT(trial_job(job_, {.number = 4}).pools[1].environment,
              Contains(Pair("CLOUD_ML_HP_METRIC_FILE", "/dev/null")));
}

TEST_F(SearchRunTest, AMetricThatNobodyWritesIsToldWithWhatThereIs) {
  job_.search->metric_tag = "scores";
  PretendedTrials trials;
  const Search search = run(trials);
  EXPECT_THAT(search.trial(1).failure, AllOf(HasSubstr("'scores'"), HasSubstr("eval/score"),
                                             HasSubstr("did you mean score?")));
  EXPECT_THAT(search.gave_up(), HasSubstr("trials failed"));
  EXPECT_EQ(search.best(), nullptr);
}

TEST_F(SearchRunTest, AFolderOfAnotherSearchIsRefused) {
  PretendedTrials trials;
  (void)run(trials);
  job_.search->parameters[0].max_value = 9;
  EXPECT_THAT(message_of([&] { (void)run(trials); }), HasSubstr("the folder " + job_.job_dir +
                                                                " holds a search over other "
                                                                "hyper-parameters"));
  job_.search->maximize = false;
  job_.search->metric_tag = "loss";
  job_.search->parameters.push_back({.name = "y", .categories = {"a"}});
  job_.search->parameters.back().type = HyperParameter::Type::kCategorical;
  EXPECT_THAT(error_of([&] { (void)run(trials, {.seed = 2}); }).hint(),
              StartsWith("it began with --seed=1, and goal: MAXIMIZE, and hyperparameterMetricTag: "
                         "score, and another range of x, and no parameter y: "));
  job_.job_dir.clear();
  EXPECT_THAT(message_of([&] { (void)run(trials); }), HasSubstr("no folder"));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
