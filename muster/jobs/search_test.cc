#include "muster/jobs/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Algorithm = HyperParameterSearch::Algorithm;

HyperParameterSearch two_parameters(Algorithm algorithm, int trials, int parallel = 1) {
  return {.parameters = {{.name = "rate",
                          .type = HyperParameter::Type::kDouble,
                          .min_value = 1e-4,
                          .max_value = 1,
                          .scale = HyperParameter::Scale::kLog},
                         {.name = "units",
                          .type = HyperParameter::Type::kDiscrete,
                          .values = {16, 32, 64}}},
          .max_trials = trials,
          .max_parallel_trials = parallel,
          .algorithm = algorithm};
}

HyperParameterSearch a_grid(int trials) {
  return {
      .parameters =
          {{.name = "a", .type = HyperParameter::Type::kInteger, .min_value = 1, .max_value = 3},
           {.name = "b", .type = HyperParameter::Type::kCategorical, .categories = {"x", "y"}}},
      .max_trials = trials,
      .algorithm = Algorithm::kGrid};
}

// The measurements at steps 100, 200, ...
std::map<int64_t, double> curve_of(const std::vector<double>& values) {
  std::map<int64_t, double> curve;
  for (const double value : values) curve[100 * (static_cast<int64_t>(curve.size()) + 1)] = value;
  return curve;
}

// Begins a trial for each curve.
void run(Search& search, const std::vector<std::vector<double>>& curves) {
  for (const auto& curve : curves)
    search.measure(search.begin_next().value().number, curve_of(curve));
}

TEST(SearchTest, AHyperParameterHasAName) {
  HyperParameterSearch search;
  search.parameters = {{.type = HyperParameter::Type::kInteger, .min_value = 1, .max_value = 2}};
  EXPECT_THAT(message_of([&] { check_search(search); }), HasSubstr("no name"));
}

TEST(SearchTest, AWholeNumberIsOneThatADoubleHolds) {
  HyperParameterSearch search;
  search.parameters = {
      {.name = "x", .type = HyperParameter::Type::kInteger, .min_value = -1e300, .max_value = 1}};
  EXPECT_THAT(message_of([&] { check_search(search); }), HasSubstr("'x'"));
}

TEST(SearchTest, AGridGoesThroughAllPointsOnce) {
  Search search(a_grid(100), 1);
  EXPECT_EQ(search.planned(), 6);
  std::set<TrialValues> seen;
  while (const auto trial = search.begin_next()) {
    seen.insert(trial->values);
    search.measure(trial->number, {{1, trial->number}});
    search.finish(trial->number, TrialState::kDone);
  }
  EXPECT_EQ(seen.size(), 6u);
  EXPECT_TRUE(search.done());
  EXPECT_EQ(search.best()->values, (TrialValues{{"a", "3"}, {"b", "y"}}));
}

TEST(SearchTest, ValuesAreAFunctionOfTheSeedAndTheTrial) {
  const auto values = [](uint64_t seed, int parallel) {
    Search search(two_parameters(Algorithm::kRandom, 20, parallel), seed);
    std::vector<TrialValues> all;
    while (!search.done()) {
      while (const auto trial = search.begin_next()) all.push_back(trial->values);
      for (const Trial& trial : std::vector<Trial>(search.trials())) {
        if (trial.state != TrialState::kRunning) continue;
        search.measure(trial.number, {{1, 0}});
        search.finish(trial.number, TrialState::kDone);
      }
    }
    return all;
  };
  EXPECT_EQ(values(7, 1), values(7, 5));
  EXPECT_NE(values(7, 1), values(8, 1));
}

TEST(SearchTest, FewValuesAreAllTriedAndNoneTwice) {
  HyperParameterSearch lists = a_grid(100);
  lists.algorithm = Algorithm::kRandom;
  Search search(lists, 3);
  std::set<TrialValues> seen;
  while (const auto trial = search.begin_next()) {
    EXPECT_TRUE(seen.insert(trial->values).second);
    search.measure(trial->number, {{1, 0}});
    search.finish(trial->number, TrialState::kDone);
  }
  EXPECT_EQ(seen.size(), 6u);
}

TEST(SearchTest, NoMoreThanAskedForRunAtATime) {
  Search search(two_parameters(Algorithm::kRandom, 3, 2), 1);
  EXPECT_TRUE(search.begin_next());
  EXPECT_TRUE(search.begin_next());
  EXPECT_FALSE(search.begin_next());
  EXPECT_EQ(search.running(), 2);
  search.finish(1, TrialState::kFailed, "exit code 1");
  EXPECT_EQ(search.begin_next()->number, 3);
  EXPECT_FALSE(search.done());
}

TEST(SearchTest, TheDefaultKeepsAThirdAtEachRung) {
  Search search(two_parameters(Algorithm::kDefault, 9, 9), 1);
  run(search, {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}});
  for (int number = 1; number <= 9; ++number)
    EXPECT_EQ(search.should_stop(number), number <= 6) << number;
  // Of three trials that reach the third measurement one stays.
  for (int number = 7; number <= 9; ++number) {
    const double first = number;
    search.measure(number, curve_of({first, 0, number == 8 ? 20.0 : 0.0}));
  }
  EXPECT_TRUE(search.should_stop(7));
  EXPECT_FALSE(search.should_stop(8));
  EXPECT_TRUE(search.should_stop(9));
}

TEST(SearchTest, TheBestSoFarIsNeverStopped) {
  for (const bool maximize : {false, true}) {
    for (const Algorithm algorithm : {Algorithm::kDefault, Algorithm::kRandom}) {
      HyperParameterSearch what = two_parameters(algorithm, 30, 30);
      what.maximize = maximize;
      what.early_stopping = true;
      Search search(what, 1);
      Random random(derive_key(5, {maximize}));
      for (int i = 0; i < 30; ++i) {
        const int number = search.begin_next().value().number;
        std::vector<double> values(9);
        for (double& value : values) value = random.uniform();
        // This trial has the best measurement of all, and has it from the beginning.
        if (i == 29) values[0] = maximize ? 2 : -2;
        search.measure(number, curve_of(values));
        if (i % 2 == 0) search.finish(number, TrialState::kDone);
      }
      EXPECT_FALSE(search.should_stop(30));
    }
  }
}

TEST(SearchTest, TheMedianRuleStopsOnlyWhereItWasAskedFor) {
  for (const bool asked : {false, true}) {
    HyperParameterSearch what = two_parameters(Algorithm::kRandom, 5, 5);
    what.early_stopping = asked;
    Search search(what, 1);
    run(search, {{0.5, 0.6}, {0.6, 0.7}, {0.7, 0.8}});
    for (int number = 1; number <= 3; ++number) search.finish(number, TrialState::kDone);
    run(search, {{0.1, 0.2}, {0.1, 0.9}});
    EXPECT_EQ(search.should_stop(4), asked);  // 0.2 is below 0.65, the mean of the second
    EXPECT_FALSE(search.should_stop(5));
  }
}

TEST(SearchTest, ATrialThatMeasuresNothingHasFailed) {
  Search search(two_parameters(Algorithm::kRandom, 5), 1);
  const int number = search.begin_next()->number;
  search.measure(number, {{1, std::numeric_limits<double>::quiet_NaN()}});
  search.finish(number, TrialState::kDone);
  EXPECT_EQ(search.trial(number).state, TrialState::kFailed);
  EXPECT_THAT(search.trial(number).failure, HasSubstr("training/hptuning/metric"));
  EXPECT_EQ(search.best(), nullptr);
}

TEST(SearchTest, TooManyFailuresEndTheSearch) {
  HyperParameterSearch what = two_parameters(Algorithm::kRandom, 100);
  what.max_failed_trials = 2;
  Search search(what, 1);
  for (int i = 0; i < 3; ++i)
    search.finish(search.begin_next()->number, TrialState::kFailed, "exit code 1");
  EXPECT_FALSE(search.begin_next());
  EXPECT_TRUE(search.done());
  EXPECT_THAT(search.gave_up(), HasSubstr("maxFailedTrials"));
}

TEST(SearchTest, FailuresOfOneKindEndTheSearchWhereNobodySaysHowManyMayFail) {
  const auto fail = [](HyperParameterSearch what, const std::vector<int>& codes) {
    Search search(std::move(what), 1);
    for (const int code : codes)
      search.finish(search.begin_next()->number, TrialState::kFailed, "no memory", code);
    return search.gave_up();
  };
  HyperParameterSearch what = two_parameters(Algorithm::kRandom, 100);
  EXPECT_THAT(fail(what, {137, 137, 137}),
              AllOf(HasSubstr("first 3 trials"), HasSubstr("no memory")));
  EXPECT_EQ(fail(what, {137, 137}), "");
  EXPECT_EQ(fail(what, {137, 1, 137}), "");
  what.max_failed_trials = 5;
  EXPECT_EQ(fail(what, {137, 137, 137}), "");
  // A command line that is wrong is so for all trials, however many may fail.
  EXPECT_THAT(fail(what, {1, 2}), HasSubstr("trial 2 failed as all would"));
}

// Values that a program refuses are no reason to end a search in which others could be tried.
TEST(SearchTest, AProgramThatHasMeasuredCanBeRun) {
  Search search(two_parameters(Algorithm::kRandom, 100), 1);
  const int good = search.begin_next()->number;
  search.measure(good, {{1, 0.5}});
  search.finish(good, TrialState::kDone);
  for (int i = 0; i < 3; ++i)
    search.finish(search.begin_next()->number, TrialState::kFailed, "exit code 2", 2);
  EXPECT_EQ(search.refused(), nullptr);
  EXPECT_EQ(search.gave_up(), "");
}

TEST(SearchTest, RunningTrialsAreInterruptedAndASearchThatGaveUpIsTriedAgain) {
  Search search(two_parameters(Algorithm::kRandom, 4, 2), 1);
  const Trial first = *search.begin_next(), second = *search.begin_next();
  search.finish(first.number, TrialState::kFailed, "exit code 2", 2);
  search.interrupt();
  EXPECT_EQ(search.trial(second.number).state, TrialState::kInterrupted);
  EXPECT_FALSE(search.begin_next());  // it gave up
  search.try_again();
  EXPECT_EQ(search.begin_next(), first);
  EXPECT_EQ(search.begin_next(), second);
}

TEST(SearchTest, AnInterruptedSearchContinuesAsIfItHadNotBeen) {
  const HyperParameterSearch what = two_parameters(Algorithm::kRandom, 4, 2);
  Search whole(what, 9), first(what, 9);
  for (Search* search : {&whole, &first}) {
    run(*search, {{0.5}, {0.25}});
    search->finish(1, TrialState::kDone);
  }
  Search second(what, 9);
  second.restore(first.to_json(), "tune/search.json");
  EXPECT_EQ(second.running(), 0);
  EXPECT_EQ(second.trials().size(), 2u);
  EXPECT_EQ(second.begin_next()->number, 2);  // it ran, and begins anew with the values it had
  EXPECT_EQ(second.trial(2).values, whole.trial(2).values);
  EXPECT_EQ(second.begin_next()->values, whole.begin_next()->values);
  EXPECT_EQ(second.trial(1), whole.trial(1));
}

TEST(SearchTest, AnotherSearchIsNotContinued) {
  const HyperParameterSearch what = two_parameters(Algorithm::kRandom, 4);
  HyperParameterSearch other = what;
  other.parameters[0].max_value = 2;
  Search search(other, 9);
  const std::string path = "tune/search.json";
  EXPECT_THAT(error_of([&] { search.restore(Search(what, 9).to_json(), path); }).message(),
              AllOf(HasSubstr("the folder tune holds"), HasSubstr("another seed")));
  EXPECT_THAT(error_of([&] { search.restore(nlohmann::json::object(), path); }).message(),
              AllOf(HasSubstr("tune/search.json"), HasSubstr("damaged")));
  EXPECT_THAT(error_of([&] { (void)saved_trials(nlohmann::json::object(), path); }).message(),
              HasSubstr("tune/search.json"));
}

TEST(SearchTest, RankingPutsTheBestFirstAndFailuresLast) {
  HyperParameterSearch what = two_parameters(Algorithm::kRandom, 4, 4);
  what.maximize = false;
  Search search(what, 1);
  run(search, {{3}, {}, {1, 4}, {2}});
  search.finish(1, TrialState::kStopped);
  search.finish(2, TrialState::kFailed, "exit code 1");
  search.finish(3, TrialState::kDone);
  search.finish(4, TrialState::kDone);
  std::vector<int> numbers;
  for (const Trial* trial : search.ranking()) numbers.push_back(trial->number);
  EXPECT_THAT(numbers, ElementsAre(3, 4, 1, 2));
}

// --- values of parameters ---

TEST(SearchSpaceTest, ValuesStayInTheirRangeAndReachItsEnds) {
  for (const auto scale : {HyperParameter::Scale::kLinear, HyperParameter::Scale::kLog,
                           HyperParameter::Scale::kReverseLog}) {
    const HyperParameter whole{.name = "n",
                               .type = HyperParameter::Type::kInteger,
                               .min_value = 2,
                               .max_value = 5,
                               .scale = scale};
    HyperParameter real = whole;
    real.type = HyperParameter::Type::kDouble;
    std::set<std::string> values;
    double last = 0;
    for (int i = 0; i < 1000; ++i) {
      values.insert(value_at(whole, i / 1000.0));
      const double value = std::stod(value_at(real, i / 1000.0));
      EXPECT_GE(value, std::max(2.0, last));
      EXPECT_LE(value, 5);
      last = value;
    }
    EXPECT_THAT(values, ElementsAre("2", "3", "4", "5"));
    EXPECT_EQ(value_at(real, 0), "2");
  }
}

TEST(SearchSpaceTest, ScalesGiveEachDecadeItsShare) {
  HyperParameter rate{.name = "rate",
                      .type = HyperParameter::Type::kDouble,
                      .min_value = 1e-4,
                      .max_value = 1,
                      .scale = HyperParameter::Scale::kLog};
  EXPECT_NEAR(std::stod(value_at(rate, 0.5)), 1e-2, 1e-9);
  rate.scale = HyperParameter::Scale::kReverseLog;
  EXPECT_NEAR(std::stod(value_at(rate, 0.5)), 1.0001 - 1e-2, 1e-9);
  rate.scale = HyperParameter::Scale::kLinear;
  EXPECT_NEAR(std::stod(value_at(rate, 0.5)), 0.50005, 1e-9);
}

TEST(SearchSpaceTest, OneParameterMoreChangesNoOther) {
  HyperParameterSearch what = two_parameters(Algorithm::kRandom, 1);
  const TrialValues before = draw_values(what, derive_key(1, {2}));
  what.parameters.insert(
      what.parameters.begin(),
      {.name = "layers", .type = HyperParameter::Type::kInteger, .min_value = 1, .max_value = 4});
  TrialValues after = draw_values(what, derive_key(1, {2}));
  after.erase("layers");
  EXPECT_EQ(after, before);
}

TEST(SearchSpaceTest, MistakesAreNamed) {
  const auto message = [](auto change) {
    HyperParameterSearch what = two_parameters(Algorithm::kRandom, 1);
    change(what);
    return error_of([&] { check_search(what); }).message();
  };
  EXPECT_THAT(message([](auto& what) { what.parameters.clear(); }),
              HasSubstr("no hyper-parameters"));
  EXPECT_THAT(message([](auto& what) { what.parameters[1].name = "rate"; }), HasSubstr("twice"));
  EXPECT_THAT(message([](auto& what) { what.parameters[0].max_value = 0; }), HasSubstr("range"));
  EXPECT_THAT(message([](auto& what) { what.parameters[0].min_value = 0; }),
              HasSubstr("logarithmic"));
  EXPECT_THAT(message([](auto& what) { what.parameters[1].values.clear(); }),
              HasSubstr("no values"));
  EXPECT_THAT(message([](auto& what) { what.algorithm = Algorithm::kGrid; }), HasSubstr("'rate'"));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
