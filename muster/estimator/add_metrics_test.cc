#include "muster/estimator/add_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using testing::examples;
using ::testing::HasSubstr;
using testing::quiet_config;
using testing::shuffled_batches;

// two_layers with predictions in every mode.
EstimatorSpec predicting_layers(const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
  EstimatorSpec spec = testing::two_layers(features, labels, mode, context);
  if (mode == Mode::kEval) spec.predictions = {{"one", torch::ones({features.rows()})}};
  return spec;
}

const InputFn kTwentyRows = [] { return examples(20).batch(8); };

TEST(AddMetricsTest, AddsToTheMetricsOfTheModelAndTakesThePlaceOfThoseOfItsName) {
  TempDirectory directory;
  Estimator plain(predicting_layers, quiet_config(directory / "m"), {{"optimizer", "adam"}});
  plain.train(shuffled_batches(40, 8), {.steps = 5});
  const EvalResult before = plain.evaluate(kTwentyRows);
  Estimator more = add_metrics(
      plain, [](const Features& features, const Labels& labels, const Prediction& predictions) {
        return std::map<std::string, Metric>{{"highest_id", metrics::mean(features["id"])},
                                             {"accuracy", metrics::mean(predictions["one"])},
                                             {"ones", metrics::mean(labels.tensor())}};
      });
  EXPECT_EQ(more.params(), plain.params());
  EXPECT_EQ(more.model_dir(), plain.model_dir());
  const EvalResult after = more.evaluate(kTwentyRows);
  EXPECT_EQ(after.at("loss"), before.at("loss"));
  EXPECT_EQ(after.at("highest_id"), 9.5);
  EXPECT_EQ(after.at("accuracy"), 1);
  EXPECT_EQ(after.size(), before.size() + 2);
  // Training knows nothing of it.
  EXPECT_EQ(more.train(shuffled_batches(40, 8), {.steps = 1}).global_step, 6);
}

TEST(AddMetricsTest, AnEstimatorWithoutAModelDirSharesItsTemporaryOne) {
  TempDirectory directory;
  RunConfig config = quiet_config("");
  const Estimator plain(predicting_layers, config);
  const Estimator more = add_metrics(
      plain, [](const auto&, const auto&, const auto&) { return std::map<std::string, Metric>(); });
  EXPECT_EQ(more.model_dir(), plain.model_dir());
  std::filesystem::remove_all(plain.model_dir());
}

TEST(AddMetricsTest, SaysWhatCannotBe) {
  TempDirectory directory;
  const Estimator plain(predicting_layers, quiet_config(directory / "m"));
  EXPECT_THAT(error_of([&] { add_metrics(plain, nullptr); }).message(),
              HasSubstr("empty metric_fn"));
  const auto evaluated = [&](const MetricFn& metric_fn) {
    Estimator more = add_metrics(plain, metric_fn);
    return error_of([&] { more.evaluate(kTwentyRows, {.allow_untrained = true}); });
  };
  const Error taken = evaluated([](const Features& features, const auto&, const auto&) {
    return std::map<std::string, Metric>{{"loss", metrics::mean(features["id"])}};
  });
  EXPECT_EQ(taken.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(taken.message(), HasSubstr("\"loss\" is always there"));
  const Error unknown = evaluated([](const auto&, const auto&, const Prediction& predictions) {
    return std::map<std::string, Metric>{{"two", metrics::mean(predictions["two"])}};
  });
  EXPECT_EQ(unknown.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(unknown.message(), HasSubstr("two"));
}

}  // namespace
}  // namespace muster::inline v0_1
