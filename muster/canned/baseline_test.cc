// Baselines on the numbers of tf.estimator's own tests, through the Estimator, on one replica and
// on two.
#include "muster/canned/baseline.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_run.h"
#include "muster/data/dataset.h"
#include "muster/export/servable.h"
#include "muster/heads/regression_head.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using testing::floats;
using ::testing::HasSubstr;
using testing::largest_distance;
using testing::leave_checkpoint;
using testing::RecordLosses;
using testing::run_config;
using Row = std::vector<double>;

// One batch of one row for each label: `ages`, labels and, if given, weights.
InputFn batch_of(const Tensor& ages, const Tensor& labels, const Row& weights = {}) {
  return testing::one_batch(weights.empty()
                                ? Element::dict({{"age", ages}})
                                : Element::dict({{"age", ages}, {"w", floats(weights)}}),
                            labels);
}

class BaselineTest : public ::testing::TestWithParam<int> {
 protected:
  RunConfig config() const { return run_config(directory_ / "m", GetParam()); }

  // Leaves a checkpoint of step 100 with this bias.
  void start_from(const Row& bias) const {
    leave_checkpoint(directory_ / "m", {{"baseline/bias", floats(bias)}});
  }

  static void expect_results(const EvalResult& results, const EvalResult& expected,
                             double tolerance) {
    testing::expect_results(results, expected, tolerance);
    EXPECT_EQ(results.size(), expected.size());
  }

  const TempDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Replicas, BaselineTest, ::testing::Values(1, 2));

// base_reg_eval_simple.
TEST_P(BaselineTest, ARegressorIsEvaluated) {
  start_from({13});
  expect_results(
      BaselineRegressor({}, config()).evaluate(batch_of(floats({1}), floats({10})), {.steps = 1}),
      {{"loss", 9},
       {"average_loss", 9},
       {"prediction/mean", 13},
       {"label/mean", 10},
       {"global_step", 100}},
      1e-6);
}

// base_cls_eval_batch.
TEST_P(BaselineTest, AClassifierIsEvaluated) {
  start_from({-1});
  expect_results(BaselineClassifier({}, config())
                     .evaluate(batch_of(floats({17, 18}), floats({1, 0}, kInt64)), {.steps = 1}),
                 {{"loss", 0.8132499999999999},
                  {"average_loss", 0.8132499999999999},
                  {"accuracy", 0.5},
                  {"precision", 0},
                  {"recall", 0},
                  {"prediction/mean", 0.2689},
                  {"label/mean", 0.5},
                  {"accuracy_baseline", 0.5},
                  {"auc", 0.5},
                  {"auc_precision_recall", 0.5},
                  {"global_step", 100}},
                 1e-3);
}

// base_reg_train_ckpt: an optimizer that changes nothing.
TEST_P(BaselineTest, ARegressorContinuesFromACheckpoint) {
  start_from({7});
  const auto record = std::make_shared<RecordLosses>();
  Estimator estimator =
      BaselineRegressor({.optimizer = optim::sgd({.learning_rate = 0.0})}, config());
  const TrainResult result =
      estimator.train(batch_of(floats({17, 18}), floats({5, 5})), {.steps = 10, .hooks = {record}});
  EXPECT_EQ(result.global_step, 110);
  EXPECT_EQ(record->losses, Row(10, 4.0));
  EXPECT_EQ(estimator.get_variable_value("baseline/bias").item<double>(), 7);
}

// base_cls_predict.
TEST_P(BaselineTest, AClassifierPredicts) {
  start_from({10});
  Estimator estimator = BaselineClassifier({}, config());
  Predictions predictions = estimator.predict([] {
    return Dataset::from_tensors(Element::dict({{"age", torch::ones({1, 1})}}));
  });
  std::optional<Prediction> one;
  ASSERT_TRUE(one = predictions.next());
  EXPECT_TRUE(one->at("class_ids").equal(torch::tensor({1})));
  EXPECT_TRUE(one->at("all_class_ids").equal(torch::tensor({0, 1})));
  EXPECT_TRUE(one->at("logits").equal(torch::tensor({10.0f})));
  EXPECT_NEAR(one->at("logistic").item<double>(), 0.9999546021312976, 1e-7);
  EXPECT_NEAR(one->at("probabilities")[0].item<double>() / 4.5397868702390376e-05, 1, 1e-6);
  EXPECT_FALSE(one = predictions.next());
}

// derived_ftrl_baseline_cls: the optimizer it names has the rate 0.3.
TEST_P(BaselineTest, AClassifierMakesAStepOfFtrl) {
  const auto record = std::make_shared<RecordLosses>();
  Estimator estimator = BaselineClassifier({}, config());
  estimator.train(batch_of(floats({1}), floats({1}, kInt64)), {.max_steps = 1, .hooks = {record}});
  EXPECT_NEAR(record->losses.at(0), 0.6931471805599453, 1e-6);
  EXPECT_NEAR(estimator.get_variable_value("baseline/bias").item<double>(), 0.253546276418555,
              1e-5 * 0.25);
}

TEST_P(BaselineTest, LearnsHowFrequentClassesAre) {
  const Tensor labels = floats({0, 2, 2, 1, 2, 2, 0, 2, 1, 2}, kInt64);
  Estimator estimator = BaselineClassifier(
      {.n_classes = 3, .optimizer = optim::sgd({.learning_rate = 3.0})}, config());
  estimator.train(batch_of(torch::zeros({10, 4}), labels), {.max_steps = 60});
  Predictions predictions = estimator.predict([] {
    return Dataset::from_tensors(torch::zeros({2, 3}));
  });
  std::optional<Prediction> one;
  ASSERT_TRUE(one = predictions.next());
  EXPECT_TRUE(
      torch::allclose(one->at("probabilities"), torch::tensor({0.2f, 0.2f, 0.6f}), 0, 1e-4));
}

// Names are looked up in each batch; weights and both reductions reach the step.
TEST_P(BaselineTest, LearnsFromNames) {
  const InputFn input = [] {
    return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"w", floats({1, 2, 3, 1})}}),
                                                       Strings({"yes", "no", "yes", "yes"})}))
        .repeat()
        .global_batch(4);
  };
  for (const auto reduction : {losses::Reduction::kSum, losses::Reduction::kSumOverBatchSize}) {
    const bool added = reduction == losses::Reduction::kSum;
    RunConfig own = config();
    own.model_dir = directory_ / (added ? "added" : "averaged");
    Estimator estimator = BaselineClassifier({.weight_column = "w",
                                              .label_vocabulary = {"no", "yes"},
                                              .optimizer = optim::sgd({.learning_rate = 0.1}),
                                              .loss_reduction = reduction},
                                             own);
    estimator.train(input, {.max_steps = 1});
    // The gradient at 0 is the sum of weight (1/2 - label), 2 (1/2) - 5 (1/2), or a quarter of it.
    const double bias = 0.1 * (added ? 1.5 : 1.5 / 4);
    EXPECT_NEAR(estimator.get_variable_value("baseline/bias").item<double>(), bias, 1e-7);
    const double yes = 1 / (1 + std::exp(-bias));
    const double loss = -5 * std::log(yes) - 2 * std::log(1 - yes);
    const EvalResult result = estimator.evaluate(input, {.steps = 1});
    EXPECT_NEAR(result.at("loss"), loss / (added ? 1 : 4), 1e-6);
    EXPECT_NEAR(result.at("average_loss"), loss / 7, 1e-6);
    EXPECT_NEAR(result.at("label/mean"), 5.0 / 7, 1e-6);
    EXPECT_NEAR(result.at("prediction/mean"), yes, 1e-6);
  }
}

// The second of two replicas has no row, and so no name.
TEST_P(BaselineTest, LearnsFromOneName) {
  Estimator estimator = BaselineClassifier({.n_classes = 3,
                                            .label_vocabulary = {"ash", "elm", "oak"},
                                            .optimizer = optim::sgd({.learning_rate = 0.3})},
                                           config());
  const InputFn input = [] {
    return Dataset::from_tensor_slices(Element::tuple({floats({1}), Strings({"elm"})}))
        .global_batch(1);
  };
  estimator.train(input);
  const Tensor bias = estimator.get_variable_value("baseline/bias");
  EXPECT_TRUE(torch::allclose(bias, torch::tensor({-0.1f, 0.2f, -0.1f}))) << bias;
  EXPECT_EQ(estimator.evaluate(input).at("accuracy"), 1);
}

// Replicas compute what one computes, with a batch that they share unevenly.
TEST(BaselineLawTest, TrainsOnTwoReplicasAsOnOne) {
  const TempDirectory directory;
  const InputFn input = [] {
    const Tensor x = torch::arange(23) % 7;
    return Dataset::from_tensor_slices(
               Element::tuple({Element::dict({{"w", (x + 1).to(kFloat32)}}), x.to(kFloat32)}))
        .repeat(3)
        .global_batch(5);
  };
  for (const auto reduction : {losses::Reduction::kSum, losses::Reduction::kSumOverBatchSize}) {
    const auto trained = [&](int replicas) {
      const std::string dir = fmt::format("{}_{}", replicas, static_cast<int>(reduction));
      Estimator estimator = BaselineEstimator(
          PoissonRegressionHead({.weight_column = "w", .loss_reduction = reduction}),
          {.optimizer = optim::sgd({.learning_rate = 0.002})},
          run_config(directory / dir, replicas));
      EXPECT_EQ(estimator.train(input).global_step, 14);
      return estimator;
    };
    const Estimator one = trained(1), two = trained(2);
    EXPECT_LT(largest_distance(one, two), 1e-5);
    EXPECT_NE(one.get_variable_value("baseline/bias").item<double>(), 0);
  }
}

TEST(BaselineExportTest, AnswersAnyNumberOfRowsWithTheNamesOfClasses) {
  const TempDirectory directory;
  Estimator estimator = BaselineClassifier(
      {.n_classes = 3, .label_vocabulary = {"ash", "elm", "oak"}}, run_config(directory / "m"));
  estimator.train([] {
    return Dataset::from_tensors(
        Element::tuple({Element::dict({{"x", torch::zeros({2, 4})}}), Strings({"oak", "elm"})}));
  });
  const Servable served(
      estimator
          .export_model(directory / "export", raw_serving_input_receiver({{"x", {kFloat32, {4}}}}))
          .value());
  const Signature& usual = served.signature(kServingDefault);
  EXPECT_EQ(usual.method, SignatureMethod::kClassify);
  EXPECT_THAT(usual.classes, ElementsAre("ash", "elm", "oak"));
  EXPECT_TRUE(served.signatures().contains("classification"));
  for (const int64_t rows : {0, 1, 7}) {
    const auto answer = served.run("predict", {{"x", torch::zeros({rows, 4})}});
    EXPECT_EQ(answer.at("all_class_ids").sizes().vec(), (Shape{rows, 3}));
    EXPECT_EQ(answer.at("class_ids").sizes().vec(), (Shape{rows, 1}));
  }
}

TEST(BaselineInputTest, SaysWhatCannotBe) {
  EXPECT_EQ(message_of([] { BaselineClassifier({.n_classes = 1}); }),
            "BaselineClassifier: n_classes is 1; it must be at least 2");
  EXPECT_THAT(message_of([] { BaselineClassifier({.label_vocabulary = {"a"}}); }),
              HasSubstr("BinaryClassHead: label_vocabulary is 1 names"));
  EXPECT_THAT(message_of([] { BaselineRegressor({.label_dimension = 0}); }),
              HasSubstr("label_dimension is 0; it must be at least 1"));
  EXPECT_EQ(message_of([] { BaselineRegressor({.optimizer = "Adm"}); }),
            "BaselineRegressor: its choice of optimizers has no name 'Adm'; it has 'Adagrad', "
            "'Adam', 'Ftrl', 'RMSProp', 'SGD'");
  EXPECT_THAT(error_of([] { BaselineRegressor({.optimizer = "Adm"}); }).hint(),
              HasSubstr("'Adam'"));
  const TempDirectory directory;
  Estimator estimator = BaselineRegressor({}, run_config(directory / "m"));
  EXPECT_THAT(message_of([&] {
                estimator.train([] {
                  return Dataset::from_tensors(Element::tuple(
                      {Element::dict({{"x", torch::zeros({2})}, {"y", torch::zeros({3})}}),
                       torch::zeros({2})}));
                });
              }),
              HasSubstr("float32[3]"));
}

TEST(OptimizerChoiceTest, NamesHaveKerasRatesUnlessOneIsGiven) {
  const auto described = [](const OptimizerChoice& choice, std::optional<double> rate = {}) {
    return choice.make("it", rate).describe();
  };
  for (const char* name : {"Adagrad", "Adam", "Ftrl", "RMSProp"})
    EXPECT_THAT(described(name), HasSubstr("learning_rate=0.001")) << name;
  EXPECT_THAT(described("SGD"), HasSubstr("learning_rate=0.01"));
  for (const char* name : {"Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"})
    EXPECT_THAT(described(name, 0.25), HasSubstr("learning_rate=0.25")) << name;
  EXPECT_THAT(described(optim::lion({.learning_rate = 0.5}), 0.25), HasSubstr("learning_rate=0.5"));
}

}  // namespace
}  // namespace muster::inline v0_1
