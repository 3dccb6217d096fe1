// Networks on the numbers of tf.estimator's own tests, through the Estimator, on one replica and on
// two.
#include "muster/canned/dnn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_run.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/heads/regression_head.h"
#include "muster/layers/initializers.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::numeric_column;
using testing::expect_results;
using testing::expect_values;
using testing::features_alone;
using testing::floats;
using testing::idle;
using testing::leave_checkpoint;
using testing::one_batch;
using testing::RecordLosses;
using testing::rows_of;
using testing::run_config;
using ::testing::UnorderedElementsAre;

// The network of the golden cases: two layers of two, over one number or two, and `logits` logits.
std::map<std::string, Tensor> small_network(int64_t inputs, int64_t logits) {
  std::map<std::string, Tensor> all{
      {"dnn/hiddenlayer_0/kernel", rows_of({{0.6, 0.5}, {-0.6, -0.5}}).slice(0, 0, inputs)},
      {"dnn/hiddenlayer_0/bias", floats({0.1, -0.1})},
      {"dnn/hiddenlayer_1/kernel", rows_of({{1, 0.8}, {-0.8, -1}})},
      {"dnn/hiddenlayer_1/bias", floats({0.2, -0.2})}};
  if (logits == 1) {
    all.emplace("dnn/logits/kernel", rows_of({{-1}, {1}}));
    all.emplace("dnn/logits/bias", floats({0.3}));
  } else {
    all.emplace("dnn/logits/kernel", rows_of({{-1, 1, 0.5}, {-1, 1, 0.5}}));
    all.emplace("dnn/logits/bias", floats({0.3, -0.3, 0}));
  }
  return all;
}

class DnnTest : public ::testing::TestWithParam<int> {
 protected:
  RunConfig config() const { return run_config(directory_ / "m", GetParam()); }
  void start_from(std::map<std::string, Tensor> tensors) const {
    leave_checkpoint(directory_ / "m", std::move(tensors));
  }

  const TempDirectory directory_;
  const std::vector<FeatureColumn> age_{numeric_column("age")};
  const std::vector<FeatureColumn> two_{numeric_column("age", {.shape = {2}})};
};
INSTANTIATE_TEST_SUITE_P(Replicas, DnnTest, ::testing::Values(1, 2));

// dnn_logits_batch2, in all modes: with labels that are the logits there is no loss.
TEST_P(DnnTest, LogitsAreThoseOfTheNetwork) {
  start_from(small_network(1, 3));
  const Tensor logits = rows_of({{-2.08, 2.08, 1.19}, {-1.08, 1.08, 0.69}});
  const Element features = Element::dict({{"age", rows_of({{10}, {5}})}});
  Estimator estimator = DNNEstimator(
      RegressionHead({.label_dimension = 3}),
      {.hidden_units = {2, 2}, .feature_columns = age_, .optimizer = idle()}, config());
  std::optional<Prediction> all;
  ASSERT_TRUE(
      (all = estimator.predict(features_alone(features), {.yield_single_examples = false}).next()));
  expect_values(all->at("predictions"), logits);
  EXPECT_NEAR(estimator.evaluate(one_batch(features, logits), {.steps = 1}).at("loss"), 0, 1e-9);
  const auto record = std::make_shared<RecordLosses>();
  estimator.train(one_batch(features, logits), {.steps = 1, .hooks = {record}});
  EXPECT_NEAR(record->losses.at(0), 0, 1e-9);
}

// dnn_logits_two_columns, dnn_reg_predict_3d: columns come in the order of their names.
TEST_P(DnnTest, ColumnsAreJoinedByName) {
  start_from(small_network(2, 3));
  const auto predicted = [&](const std::vector<FeatureColumn>& columns, const Element& features) {
    Estimator estimator = DNNRegressor(
        {.hidden_units = {2, 2}, .feature_columns = columns, .label_dimension = 3}, config());
    std::optional<Prediction> all;
    EXPECT_TRUE(
        (all =
             estimator.predict(features_alone(features), {.yield_single_examples = false}).next()));
    return all->at("predictions");
  };
  const Tensor expected = rows_of({{-0.48, 0.48, 0.39}});
  expect_values(predicted({numeric_column("height"), numeric_column("age")},
                          Element::dict({{"age", rows_of({{10}})}, {"height", rows_of({{8}})}})),
                expected);
  expect_values(
      predicted({numeric_column("x", {.shape = {2}})}, Element::dict({{"x", rows_of({{10, 8}})}})),
      expected);
}

// dnn_cls_eval_binary_v1_sum; all in full digits: the logit is -2.08 for both rows.
TEST_P(DnnTest, AClassifierIsEvaluatedWithASum) {
  start_from(small_network(1, 1));
  const double sum = std::log1p(std::exp(2.08)) + std::log1p(std::exp(-2.08));
  expect_results(
      DNNClassifier({.hidden_units = {2, 2},
                     .feature_columns = age_,
                     .loss_reduction = losses::Reduction::kSum},
                    config())
          .evaluate(
              one_batch(Element::dict({{"age", rows_of({{10}, {10}})}}), torch::tensor({{1}, {0}})),
              {.steps = 1}),
      {{"loss", sum}, {"average_loss", sum / 2}, {"accuracy", 0.5}, {"global_step", 100}}, 1e-5);
  EXPECT_NEAR(sum, 2.315442, 1e-6);
}

// dnn_cls_eval_weights, dnn_reg_eval_3d_weights.
TEST_P(DnnTest, WeightsCount) {
  start_from(small_network(2, 3));
  const double partition = std::log(std::exp(-0.48) + std::exp(0.48) + std::exp(0.39));
  expect_results(
      DNNClassifier(
          {.hidden_units = {2, 2}, .feature_columns = two_, .n_classes = 3, .weight_column = "w"},
          config())
          .evaluate(one_batch(Element::dict({{"age", rows_of({{10, 8}, {10, 8}})},
                                             {"w", rows_of({{10}, {100}})}}),
                              torch::tensor({{1}, {0}})),
                    {.steps = 1}),
      {{"loss", (10 * (partition - 0.48) + 100 * (partition + 0.48)) / 2}}, 1e-5);
  const double squares = 1.48 * 1.48 + 1.48 * 1.48 + 0.11 * 0.11;
  expect_results(
      DNNRegressor({.hidden_units = {2, 2},
                    .feature_columns = two_,
                    .label_dimension = 3,
                    .weight_column = "w"},
                   config())
          .evaluate(one_batch(Element::dict({{"age", rows_of({{10, 8}})}, {"w", floats({10})}}),
                              rows_of({{1, -1, 0.5}})),
                    {.steps = 1}),
      {{"loss", 10 * squares / 3}, {"average_loss", squares / 3}}, 1e-5);
  EXPECT_NEAR(10 * squares / 3, 14.643, 5e-4);
}

// dnn_cls_train_multi, with the values for TensorBoard.
TEST_P(DnnTest, AClassifierTrainsAndShowsItsLayers) {
  start_from(small_network(1, 3));
  const auto record = std::make_shared<RecordLosses>();
  Estimator estimator = DNNClassifier(
      {.hidden_units = {2, 2}, .feature_columns = age_, .n_classes = 3, .optimizer = idle()},
      config());
  const TrainResult result =
      estimator.train(one_batch(Element::dict({{"age", rows_of({{10}})}}), torch::tensor({{1}})),
                      {.steps = 5, .hooks = {record}});
  EXPECT_EQ(result.global_step, 105);
  ASSERT_EQ(record->losses.size(), 5u);
  for (const double loss : record->losses) EXPECT_NEAR(loss, 0.35505795, 1e-6);
  const auto shown = testing::summaries_in(directory_ / "m");
  EXPECT_EQ(testing::number_of(shown, "dnn/hiddenlayer_0/fraction_of_zero_values"), 0);
  EXPECT_EQ(testing::number_of(shown, "dnn/hiddenlayer_1/fraction_of_zero_values"), 0.5);
  EXPECT_EQ(testing::number_of(shown, "dnn/logits/fraction_of_zero_values"), 0);
  const auto& logits = std::get<formats::Histogram>(shown.at("dnn/logits/activation"));
  EXPECT_NEAR(logits.min, -2.08, 1e-5);
  EXPECT_NEAR(logits.max, 2.08, 1e-5);
  EXPECT_EQ(logits.count, 3);
  EXPECT_TRUE(shown.contains("dnn/hiddenlayer_1/activation"));
}

// The bias of the logits moves as Adagrad says: a = 0.1 + g^2, -rate * g / (sqrt(a) + 1e-7).
TEST_P(DnnTest, AStepHasTheRateOfItsOptimizer) {
  const auto moved = [&](const OptimizerChoice& optimizer) {
    const TempDirectory own;
    leave_checkpoint(own / "before", small_network(1, 1));
    RunConfig here = config();
    here.model_dir = own / "m";
    here.warm_start_from = own / "before";
    Estimator estimator = DNNRegressor(
        {.hidden_units = {2, 2}, .feature_columns = age_, .optimizer = optimizer}, here);
    estimator.train(one_batch(Element::dict({{"age", rows_of({{10}})}}), rows_of({{1}})),
                    {.max_steps = 1});
    return estimator.get_variable_value("dnn/logits/bias").item<double>() - 0.3;
  };
  const double g = 2 * (-2.08 - 1);
  EXPECT_NEAR(moved("Adagrad"), -0.001 * g / (std::sqrt(0.1 + g * g) + 1e-7), 1e-6);
  EXPECT_NEAR(moved("SGD"), -0.01 * g, 1e-6);
  EXPECT_NEAR(moved(optim::sgd({.learning_rate = 0.5})), -0.5 * g, 1e-5);
}

// dnn_warm_vocab.
TEST_P(DnnTest, EmbeddingsMoveWithTheWordsOfAVocabulary) {
  const std::string table =
      "dnn/input_from_feature_columns/input_layer/occupation_embedding/embedding_weights";
  const Tensor old = torch::arange(6, kFloat32).reshape({3, 2}) + 1;
  leave_checkpoint(directory_ / "before", {{table, old}});
  std::ofstream(directory_ / "new") << "doctor\nconsultant\nengineer\n";
  std::ofstream(directory_ / "old") << "doctor\nlawyer\nconsultant\n";
  RunConfig own = config();
  own.warm_start_from = WarmStartSettings{
      .ckpt_to_initialize_from = directory_ / "before",
      .vars_to_warm_start = WarmStartVariables(std::vector<std::string>{}),
      .var_name_to_vocab_info = {{table,
                                  {.new_vocab = directory_ / "new",
                                   .new_vocab_size = 3,
                                   .old_vocab = directory_ / "old",
                                   .old_vocab_size = 3,
                                   .backup_initializer = initializers::constant(0.39)}}}};
  const FeatureColumn occupation = feature_column::categorical_column_with_vocabulary_file(
      "occupation", directory_ / "new", {.vocabulary_size = 3});
  Estimator estimator =
      DNNClassifier({.hidden_units = {3},
                     .feature_columns = {feature_column::embedding_column(occupation, 2)},
                     .n_classes = 4,
                     .optimizer = idle()},
                    own);
  estimator.train(
      one_batch(Element::dict({{"occupation", Strings(std::vector<std::string>{"engineer"})}}),
                torch::tensor({1})),
      {.max_steps = 1});
  expect_values(estimator.get_variable_value(table),
                torch::stack({old[0], old[2], torch::full({2}, 0.39)}));
  expect_values(estimator.get_variable_value("dnn/hiddenlayer_0/bias"), torch::zeros({3}));
  EXPECT_GT(estimator.get_variable_value("dnn/logits/kernel").abs().max().item<double>(), 0);
}

// Dropout and batch normalization have tf.estimator's names and places: normalization is last.
TEST_P(DnnTest, BatchNormalizationFollowsActivationAndDropout) {
  DNNRegressorOptions options{.hidden_units = {4, 3},
                              .feature_columns = age_,
                              .optimizer = idle(),
                              .activation_fn = activations::sigmoid,
                              .dropout = 0.5,
                              .batch_norm = true};
  Estimator estimator = DNNRegressor(options, config());
  options.dropout = 0;
  Estimator whole = DNNRegressor(options, config());
  const Element features = Element::dict({{"age", torch::arange(64, kFloat32)}});
  estimator.train(one_batch(features, torch::zeros({64})), {.max_steps = 1});
  std::vector<std::string> names;
  for (const std::string& name : estimator.get_variable_names()) {
    // Next to a mean over replicas there is the value of each of them.
    if (name.starts_with("dnn/hiddenlayer_1/") && !name.ends_with("/replicas"))
      names.push_back(name.substr(18));
  }
  EXPECT_THAT(names,
              UnorderedElementsAre("kernel", "bias", "batchnorm_1/gamma", "batchnorm_1/beta",
                                   "batchnorm_1/moving_mean", "batchnorm_1/moving_variance"));
  // After a sigmoid the mean is above 0, and one step of momentum 0.999 takes a thousandth of it.
  const Tensor mean =
      estimator.get_variable_value("dnn/hiddenlayer_0/batchnorm_0/moving_mean").mean();
  EXPECT_GT(mean.item<double>(), 0.0001);
  EXPECT_LT(mean.item<double>(), 0.001);
  // Evaluation drops nothing.
  const auto loss_of = [&](Estimator& of) {
    return of.evaluate(one_batch(features, torch::zeros({64})), {.steps = 1}).at("loss");
  };
  EXPECT_EQ(loss_of(estimator), loss_of(whole));
  const auto shown = testing::summaries_in(directory_ / "m");
  const auto& hidden = std::get<formats::Histogram>(shown.at("dnn/hiddenlayer_0/activation"));
  EXPECT_NEAR(hidden.sum / hidden.count, 0, 1e-4);  // the summary shows the normalized values
}

}  // namespace
}  // namespace muster::inline v0_1
