#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <span>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1 {
namespace {

using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;
using testing::two_layers;

TEST(EstimatorTest, EvaluatingTouchesNoTrainingWeights) {
  TempDirectory directory;
  Estimator plain(two_layers, quiet_config(directory / "plain"));
  plain.train(shuffled_batches(50, 5), {.max_steps = 30});
  Estimator mixed(two_layers, quiet_config(directory / "mixed"));
  train_and_evaluate(mixed, {.input_fn = shuffled_batches(50, 5), .max_steps = 30},
                     {.input_fn = shuffled_batches(50, 25, 1)});
  EXPECT_TRUE(same_bits(latest(directory / "plain"), latest(directory / "mixed")));
}

// The largest number that was seen: a state that is not added.
std::shared_ptr<const MetricKind> largest() {
  return std::make_shared<MetricKind>(MetricKind{
      .name = "largest",
      .empty = {-std::numeric_limits<double>::infinity()},
      .merge = [](std::span<double> state,
                  std::span<const double> other) { state[0] = std::max(state[0], other[0]); },
      .result = [](std::span<const double> state) { return state[0]; }});
}

TEST(EstimatorTest, MetricsOfOnesOwnAreMergedOverReplicasByTheirKind) {
  TempDirectory directory;
  const auto model = [](const Features& features, const Labels& labels, Mode mode,
                        ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    const Tensor seen = features.element().values().front().tensor();
    const Metric most = Metric::make(largest(), {seen.max().item<double>()});
    if (mode == Mode::kEval) spec.eval_metrics.emplace("most", most);
    if (mode == Mode::kTrain) spec.train_metrics.emplace("most", most);
    return spec;
  };
  RunConfig alone = quiet_config(directory / "m");
  RunConfig two = alone;
  two.train_distribute = two.eval_distribute = distribute::mirrored({.replicas = 2});
  const InputFn all = [] { return examples(20).batch(3); };
  const EvaluateOptions untrained{.allow_untrained = true};
  const double most = Estimator(model, alone).evaluate(all, untrained).at("most");
  EXPECT_EQ(Estimator(model, two).evaluate(all, untrained).at("most"), most);
  std::optional<Element> whole;
  ASSERT_TRUE(whole = examples(20).batch(20).iterator()->next());
  EXPECT_EQ(most,
            to_batch(*whole).features.element().values().front().tensor().max().item<double>());
  Estimator(model, two).train(all, {.max_steps = 1});
}

EstimatorSpec measured_by_class(const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
  const Tensor logits = context.model("net", [] { return Dense(2); })(features["x"]);
  const Tensor loss = testing::loss_of(logits, labels);
  const Tensor probabilities = logits.softmax(-1).select(-1, 1);
  const Tensor classes = logits.argmax(-1);
  const Tensor weights = features["id"] + 1;
  const Metric recall = metrics::per_class_recall(labels, classes, 2);
  if (mode == Mode::kTrain)
    return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss),
                                {{"recall", recall}});
  return EstimatorSpec::eval(
      loss,
      {{"auc", metrics::auc(labels, probabilities, weights)},
       {"auc_pr", metrics::auc(labels, probabilities, {}, {.curve = metrics::Curve::kPr})},
       {"precision", metrics::precision(labels, probabilities, {}, {.thresholds = {0.3, 0.5}})},
       {"recall", recall},
       {"confusion", metrics::confusion_matrix(labels, classes, 2, weights)},
       {"r2", metrics::r2_score(labels, probabilities)}});
}

// A replica that sees no batch does not know kinds with parameters, nor their parts; it still
// receives the results.
TEST(EstimatorTest, PartsOfMetricsAreThoseOfOneReplica) {
  TempDirectory directory;
  RunConfig config = quiet_config(directory / "m");
  for (const int64_t rows : {53, 7}) {
    const InputFn input = [rows] { return examples(rows).batch(5); };
    config.eval_distribute = nullptr;
    const EvalResult one =
        Estimator(measured_by_class, config).evaluate(input, {.allow_untrained = true});
    EXPECT_EQ(one.size(), 2 + 6 + 2 + 2 + 4u);
    const double all = static_cast<double>(rows * (rows + 1)) / 2;
    EXPECT_EQ(one.at("confusion/label_0/prediction_0") + one.at("confusion/label_0/prediction_1") +
                  one.at("confusion/label_1/prediction_0") +
                  one.at("confusion/label_1/prediction_1"),
              all);
    EXPECT_EQ((one.at("recall/class_0") + one.at("recall/class_1")) / 2, one.at("recall"));
    EXPECT_EQ(one.at("precision"), one.at("precision/threshold_0.3"));
    for (const int replicas : {2, 3}) {
      config.eval_distribute = distribute::mirrored({.replicas = replicas});
      EXPECT_EQ(Estimator(measured_by_class, config).evaluate(input, {.allow_untrained = true}),
                one)
          << replicas << " replicas, " << rows << " rows";
    }
  }
}

// The metrics of a step are shown with their parts.
TEST(EstimatorTest, PartsOfMetricsAreInTheSummariesOfTraining) {
  TempDirectory directory;
  RunConfig config = quiet_config(directory / "m");
  config.save_summary_steps = 1;
  Estimator(measured_by_class, config).train(shuffled_batches(50, 5), {.max_steps = 2});
  std::set<std::string> tags;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "m")) {
    if (entry.path().filename().string().find("tfevents") == std::string::npos) continue;
    const auto events = formats::read_events(local_file_system(), entry.path().string());
    for (const auto& event : events.value().events)
      for (const auto& value : event.values) tags.insert(value.tag);
  }
  EXPECT_TRUE(tags.contains("recall"));
  EXPECT_TRUE(tags.contains("recall/class_0"));
  EXPECT_TRUE(tags.contains("recall/class_1"));
}

TEST(EstimatorTest, PredictGivesExamplesOrBatches) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  estimator.train(shuffled_batches(50, 5), {.max_steps = 10});
  int64_t examples_seen = 0;
  std::optional<Prediction> prediction;
  Predictions single =
      estimator.predict([] { return examples(13).batch(5); }, {.predict_keys = {"class"}});
  while ((prediction = single.next())) {
    EXPECT_EQ(prediction->size(), 1u);
    EXPECT_EQ(prediction->at("class").dim(), 0);
    ++examples_seen;
  }
  EXPECT_EQ(examples_seen, 13);
  Predictions batches =
      estimator.predict([] { return examples(13).batch(5); }, {.yield_single_examples = false});
  ASSERT_TRUE(prediction = batches.next());
  EXPECT_EQ(prediction->at("logits").size(0), 5);
  Predictions unknown =
      estimator.predict([] { return examples(13).batch(5); }, {.predict_keys = {"nothing"}});
  EXPECT_THAT(error_of([&] { prediction = unknown.next(); }).what(), HasSubstr("class, logits"));
}

TEST(EstimatorTest, PredictionsSurviveAMoveOfTheEstimator) {
  TempDirectory directory;
  Estimator first(two_layers, quiet_config(directory / "m"));
  Predictions predictions =
      first.predict([] { return examples(3).batch(2); }, {.allow_untrained = true});
  const Estimator second = std::move(first);
  int64_t rows = 0;
  while (predictions.next()) ++rows;
  EXPECT_EQ(rows, 3);
}

TEST(EstimatorTest, AnEvaluationNamesTheCheckpointItRead) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(50, 5), {.max_steps = 10});
  {
    Estimator estimator(two_layers, quiet_config(directory / "m"));
    const EvalResult result = estimator.evaluate([&] {
      Estimator(two_layers, quiet_config(directory / "m"))
          .train(shuffled_batches(50, 5), {.max_steps = 20});
      return examples(20).batch(10);
    });
    EXPECT_EQ(result.at("global_step"), 10);
  }
  const auto files = formats::list_event_files(local_file_system(), directory / "m/eval").value();
  ASSERT_EQ(files.size(), 1u);
  std::vector<std::string> named;
  for (const auto& event : formats::read_events(local_file_system(), files[0]).value().events) {
    for (const auto& value : event.values) {
      if (value.tag == "checkpoint_path") named.push_back(std::get<std::string>(value.value));
    }
  }
  EXPECT_THAT(named, ::testing::ElementsAre(::testing::EndsWith("model.ckpt-10")));
}

TEST(EvaluateTest, WithoutACheckpointAsOftenAsOneLikes) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  const EvaluateOptions untrained{.allow_untrained = true};
  const EvalResult first = estimator.evaluate(shuffled_batches(20, 5, 1), untrained);
  EXPECT_EQ(estimator.evaluate(shuffled_batches(20, 5, 1), untrained), first);
}

TEST(EvaluateTest, AModelThatWasNotTrainedIsAnErrorUnlessAskedFor) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "model"))
      .train(shuffled_batches(20, 5), {.max_steps = 3});
  const InputFn input = shuffled_batches(20, 5, 1);
  const auto expect_not_found = [&](const std::string& model_dir, const std::string& state) {
    Estimator estimator(two_layers, quiet_config(model_dir));
    for (const Error& error : {error_of([&] { estimator.evaluate(input); }),
                               error_of([&] { estimator.predict(input).next(); })}) {
      EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
      EXPECT_EQ(error.message(),
                "could not find a trained model in model_dir: " + model_dir + " " + state);
      EXPECT_THAT(error.hint(), HasSubstr("misspelling"));
      EXPECT_THAT(error.hint(), HasSubstr("{.allow_untrained = true}"));
    }
    EXPECT_TRUE(estimator.predict(input, {.allow_untrained = true}).next());
    EXPECT_EQ(error_of([&] { (void)estimator.get_variable_names(); }).kind(), ErrorKind::kNotFound);
  };
  expect_not_found(directory / "modle", "does not exist");
  std::filesystem::create_directory(directory / "empty");
  expect_not_found(directory / "empty", "holds no checkpoint");
  EXPECT_TRUE(Estimator(two_layers, quiet_config(directory / "model")).predict(input).next());
}

TEST(EvaluateTest, TheModelFunctionSeesTheStepOfTheCheckpoint) {
  TempDirectory directory;
  std::vector<int64_t> steps;
  const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    if (mode == Mode::kEval) steps.push_back(context.global_step());
    return two_layers(features, labels, mode, context);
  };
  Estimator estimator(recording, quiet_config(directory / "m"));
  estimator.train(shuffled_batches(20, 5), {.max_steps = 3});
  for (int time = 0; time < 2; ++time) {
    steps.clear();
    estimator.evaluate(shuffled_batches(20, 5, 1));
    ASSERT_GE(steps.size(), 4u);
    for (const int64_t step : steps) EXPECT_EQ(step, 3);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
