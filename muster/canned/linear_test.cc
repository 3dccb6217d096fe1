// Linear estimators on the numbers of tf.estimator's own tests, through the Estimator, on one
// replica and on two.
#include "muster/canned/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_run.h"
#include "muster/data/libsvm.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/resolve.h"
#include "muster/heads/regression_head.h"
#include "muster/layers/initializers.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::categorical_column_with_vocabulary_list;
using feature_column::Combiner;
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

const std::string kModel = "linear/linear_model/";

std::map<std::string, Tensor> of_age(const std::vector<double>& weights,
                                     const std::vector<double>& bias) {
  return {{kModel + "age/weights", rows_of({weights})}, {kModel + "bias_weights", floats(bias)}};
}

class LinearTest : public ::testing::TestWithParam<int> {
 protected:
  RunConfig config() const { return run_config(directory_ / "m", GetParam()); }
  void start_from(std::map<std::string, Tensor> tensors) const {
    leave_checkpoint(directory_ / "m", std::move(tensors));
  }
  Tensor variable(const Estimator& estimator, const std::string& name) const {
    return estimator.get_variable_value(kModel + name);
  }

  const TempDirectory directory_;
  const std::vector<FeatureColumn> age_{numeric_column("age")};
};
INSTANTIATE_TEST_SUITE_P(Replicas, LinearTest, ::testing::Values(1, 2));

// lin_reg_eval_simple, lin_reg_eval_weights.
TEST_P(LinearTest, ARegressorIsEvaluated) {
  start_from(of_age({11}, {2}));
  EvalResult expected{{"loss", 9},
                      {"average_loss", 9},
                      {"prediction/mean", 13},
                      {"label/mean", 10},
                      {"global_step", 100}};
  const EvalResult simple =
      LinearRegressor({.feature_columns = age_}, config())
          .evaluate(one_batch(Element::dict({{"age", rows_of({{1}})}}), rows_of({{10}})),
                    {.steps = 1});
  expect_results(simple, expected, 1e-6);
  EXPECT_EQ(simple.size(), expected.size());

  expected["loss"] = 13.5;
  expect_results(LinearRegressor({.feature_columns = age_, .weight_column = "weights"}, config())
                     .evaluate(one_batch(Element::dict({{"age", rows_of({{1}, {1}})},
                                                        {"weights", rows_of({{1}, {2}})}}),
                                         rows_of({{10}, {10}})),
                               {.steps = 1}),
                 expected, 1e-6);
}

// lin_reg_eval_two_columns, lin_reg_predict_two_columns.
TEST_P(LinearTest, ColumnsAreAdded) {
  start_from({{kModel + "age/weights", rows_of({{10}})},
              {kModel + "height/weights", rows_of({{2}})},
              {kModel + "bias_weights", floats({5})}});
  const LinearRegressorOptions options{
      .feature_columns = {numeric_column("height"), numeric_column("age")}};
  const Element features = Element::dict({{"age", floats({20, 40})}, {"height", floats({4, 8})}});
  expect_results(LinearRegressor(options, config())
                     .evaluate(one_batch(features, rows_of({{213}, {421}})), {.steps = 1}),
                 {{"loss", 0}}, 1e-6);
  std::optional<Prediction> all;
  ASSERT_TRUE(all = LinearRegressor(options, config())
                        .predict(features_alone(features), {.yield_single_examples = false})
                        .next());
  expect_values(all->at("predictions"), rows_of({{213}, {421}}));
}

// lin_reg_sparse_combiner_sqrtn, and the results of the other two combiners.
TEST_P(LinearTest, IdsOfOneColumnAreCombined) {
  start_from({{kModel + "language/weights", rows_of({{2}, {3}, {5}})},
              {kModel + "bias_weights", floats({5})}});
  const FeatureColumn language =
      categorical_column_with_vocabulary_list("language", {"a", "b", "c"});
  const Element features = Element::dict({{"language", Strings({2, 2}, {0, 1, 2, 3, 4}, "acbc")}});
  const auto predicted = [&](Combiner combiner, bool resolved) {
    Estimator estimator =
        LinearRegressor({.feature_columns = {language}, .sparse_combiner = combiner}, config());
    std::optional<Prediction> all;
    Predictions predictions = estimator.predict(
        [&] {
          Dataset data = Dataset::from_tensors(features);
          return resolved ? data.map(feature_column::resolve({language})) : data;
        },
        {.yield_single_examples = false});
    EXPECT_TRUE(all = predictions.next());
    return all->at("predictions");
  };
  for (const bool resolved : {true, false}) {
    expect_values(predicted(Combiner::kSqrtn, resolved),
                  rows_of({{5 + 7 / std::sqrt(2)}, {5 + 8 / std::sqrt(2)}}));
    expect_values(predicted(Combiner::kSum, resolved), rows_of({{12}, {13}}));
    expect_values(predicted(Combiner::kMean, resolved), rows_of({{8.5}, {9}}));
  }
}

// lin_reg_train_from_ckpt.
TEST_P(LinearTest, ARegressorContinuesFromACheckpoint) {
  start_from(of_age({10}, {5}));
  const auto record = std::make_shared<RecordLosses>();
  Estimator estimator = LinearRegressor({.feature_columns = age_, .optimizer = idle()}, config());
  const TrainResult result =
      estimator.train(one_batch(Element::dict({{"age", rows_of({{17}})}}), rows_of({{5}})),
                      {.steps = 10, .hooks = {record}});
  EXPECT_EQ(result.global_step, 110);
  EXPECT_EQ(record->losses, std::vector<double>(10, 28900));
  EXPECT_EQ(variable(estimator, "age/weights").item<double>(), 10);
  EXPECT_EQ(variable(estimator, "bias_weights").item<double>(), 5);
}

// lin_cls_train_scratch_n2, and with more classes.
TEST_P(LinearTest, AClassifierBeginsWithoutAnOpinion) {
  for (const int64_t classes : {2, 4}) {
    const auto record = std::make_shared<RecordLosses>();
    RunConfig own = config();
    own.model_dir = directory_ / std::to_string(classes);
    Estimator estimator =
        LinearClassifier({.feature_columns = age_, .n_classes = classes, .optimizer = idle()}, own);
    estimator.train(one_batch(Element::dict({{"age", rows_of({{17}})}}), torch::tensor({{1}})),
                    {.steps = 10, .hooks = {record}});
    ASSERT_EQ(record->losses.size(), 10u);
    for (const double loss : record->losses)
      EXPECT_NEAR(loss, std::log(static_cast<double>(classes)), 1e-6);
    EXPECT_EQ(variable(estimator, "age/weights").abs().sum().item<double>(), 0);
    EXPECT_EQ(variable(estimator, "age/weights").sizes().vec(),
              (Shape{1, classes == 2 ? 1 : classes}));
  }
}

// lin_cls_train_ckpt_multi, lin_cls_train_multibatch_multi, lin_cls_eval_weights_multi.
TEST_P(LinearTest, AClassifierOfFourClassesTrainsAndIsEvaluated) {
  const auto losses = [&](const Tensor& ages, const Tensor& labels) {
    RunConfig own = config();
    own.model_dir = directory_ / std::to_string(ages.size(0));
    leave_checkpoint(own.model_dir, of_age({0, 2, 4, 6}, {-35, -35, -35, -35}));
    const auto record = std::make_shared<RecordLosses>();
    LinearClassifier({.feature_columns = age_, .n_classes = 4, .optimizer = idle()}, own)
        .train(one_batch(Element::dict({{"age", ages}}), labels), {.steps = 2, .hooks = {record}});
    return record->losses;
  };
  EXPECT_EQ(losses(rows_of({{17}}), torch::tensor({{1}})), std::vector<double>(2, 68));
  EXPECT_EQ(losses(floats({17, 18.5}), torch::tensor({1, 0})), std::vector<double>(2, 89.5));

  start_from(of_age({0, 2, 4, 6}, {-35, -35, -35, -35}));
  expect_results(
      LinearClassifier({.feature_columns = age_, .n_classes = 4, .weight_column = "w"}, config())
          .evaluate(one_batch(Element::dict({{"age", floats({17, 18})}, {"w", floats({1, 2})}}),
                              torch::tensor({1, 0})),
                    {.steps = 1}),
      {{"loss", 142}, {"average_loss", 94.66666666666667}, {"accuracy", 0}, {"global_step", 100}},
      1e-6);
}

// lin_cls_eval_batch_binary; the rule in full digits.
TEST_P(LinearTest, AClassifierIsEvaluated) {
  start_from(of_age({2}, {-35}));
  const double loss = std::log1p(std::exp(1.0));  // of logits -1 and 1, both wrong
  expect_results(
      LinearClassifier({.feature_columns = age_}, config())
          .evaluate(one_batch(Element::dict({{"age", floats({17, 18})}}), torch::tensor({1, 0})),
                    {.steps = 1}),
      {{"loss", loss},
       {"average_loss", loss},
       {"accuracy", 0},
       {"precision", 0},
       {"recall", 0},
       {"prediction/mean", 0.5},
       {"label/mean", 0.5},
       {"accuracy_baseline", 0.5},
       {"auc", 0},
       {"auc_precision_recall", 0.3068528},
       {"global_step", 100}},
      1e-6);
}

// lin_logit_fn, by an estimator with a head of one's own.
TEST_P(LinearTest, AnEstimatorHasTheLogitsOfItsHead) {
  const Element features = Element::dict({{"age", rows_of({{23}, {31}})}});
  const Head head = RegressionHead({.label_dimension = 2});
  const auto logits = [&](const std::vector<double>& weights, const std::vector<double>& bias) {
    RunConfig own = config();
    own.model_dir = directory_ / std::to_string(weights[0] + bias[0]);
    leave_checkpoint(own.model_dir, of_age(weights, bias));
    std::optional<Prediction> all;
    EXPECT_TRUE(all = LinearEstimator(head, {.feature_columns = age_}, own)
                          .predict(features_alone(features), {.yield_single_examples = false})
                          .next());
    return all->at("predictions");
  };
  expect_values(logits({0, 0}, {0, 0}), torch::zeros({2, 2}));
  expect_values(logits({0, 0}, {10, 5}), rows_of({{10, 5}, {10, 5}}));
  expect_values(logits({2, 3}, {10, 5}), rows_of({{56, 74}, {72, 98}}));
}

// derived_sgd_linreg, and steps of the optimizers that are chosen by name, or left out.
TEST_P(LinearTest, AStepHasTheRateOfItsOptimizer) {
  const auto stepped = [&](const std::optional<OptimizerChoice>& optimizer, int more_columns) {
    const TempDirectory own;
    std::vector<FeatureColumn> columns = age_;
    std::vector<std::pair<std::string, Element>> features{{"age", rows_of({{17}})}};
    for (int i = 0; i < more_columns; ++i) {
      columns.push_back(numeric_column("x" + std::to_string(i)));
      features.emplace_back("x" + std::to_string(i), rows_of({{0}}));
    }
    RunConfig here = config();
    here.model_dir = own / "m";
    Estimator estimator =
        LinearRegressor({.feature_columns = columns, .optimizer = optimizer}, here);
    const auto record = std::make_shared<RecordLosses>();
    const TrainResult result = estimator.train(one_batch(Element::dict(features), rows_of({{5}})),
                                               {.max_steps = 1, .hooks = {record}});
    EXPECT_EQ(result.global_step, 1);
    EXPECT_EQ(record->losses, std::vector<double>{25});
    return std::pair(variable(estimator, "age/weights").item<double>(),
                     variable(estimator, "bias_weights").item<double>());
  };
  const auto [weight, bias] = stepped(optim::sgd({.learning_rate = 0.001}), 0);
  EXPECT_NEAR(weight, 0.17, 1e-6);
  EXPECT_NEAR(bias, 0.01, 1e-7);

  // The first step of Ftrl is -rate * g / sqrt(0.1 + g^2), and g is -10 for the bias.
  const auto ftrl = [](double rate) { return rate * 10 / std::sqrt(100.1); };
  EXPECT_NEAR(stepped("Ftrl", 0).second, ftrl(0.2), 1e-6);
  EXPECT_NEAR(stepped("Ftrl", 35).second, ftrl(0.2), 1e-6);
  EXPECT_NEAR(stepped("SGD", 0).second, 0.2 * 10, 1e-6);
  EXPECT_NEAR(stepped(std::nullopt, 3).second, ftrl(0.2), 1e-6);
  EXPECT_NEAR(stepped(std::nullopt, 35).second, ftrl(1.0 / 6), 1e-6);
}

// Four steps by the formulas, in double precision. Whatever its name, an optimizer has the rate
// 0.2.
TEST_P(LinearTest, StepsFollowTheRulesOfOptimizersByName) {
  const std::map<std::string, std::pair<double, double>> expected{
      {"SGD", {2.27034074, 0.602074074}},
      {"Adagrad", {0.525462678, 0.503433176}},
      {"Ftrl", {0.525462681, 0.503433185}},
      {"Adam", {0.791313715, 0.781579247}},
      {"RMSProp", {1.43974787, 1.08452275}}};
  for (const auto& [name, values] : expected) {
    RunConfig own = config();
    own.model_dir = directory_ / name;
    Estimator estimator = LinearRegressor({.feature_columns = age_, .optimizer = name}, own);
    estimator.train(
        one_batch(Element::dict({{"age", rows_of({{1}, {2}, {-1}})}}), rows_of({{3}, {5}, {-2}})),
        {.max_steps = 4});
    EXPECT_NEAR(variable(estimator, "age/weights").item<double>(), values.first, 1e-5) << name;
    EXPECT_NEAR(variable(estimator, "bias_weights").item<double>(), values.second, 1e-5) << name;
  }
}

// lin_warm_vocab.
TEST_P(LinearTest, WeightsMoveWithTheWordsOfAVocabulary) {
  const std::string before = directory_ / "before";
  const Tensor old = torch::arange(12, kFloat32).reshape({3, 4}) + 1;
  leave_checkpoint(before, {{kModel + "occupation/weights", old},
                            {kModel + "bias_weights", floats({1, 2, 3, 4})}});
  const auto vocabulary = [&](const char* name, const char* words) {
    const std::string path = directory_ / name;
    std::ofstream(path) << words;
    return path;
  };
  RunConfig own = config();
  own.warm_start_from = WarmStartSettings{
      .ckpt_to_initialize_from = before,
      .vars_to_warm_start = WarmStartVariables(std::vector<std::string>{}),
      .var_name_to_vocab_info = {{kModel + "occupation/weights",
                                  {.new_vocab = vocabulary("new", "doctor\nconsultant\nengineer\n"),
                                   .new_vocab_size = 3,
                                   .old_vocab = vocabulary("old", "doctor\nlawyer\nconsultant\n"),
                                   .old_vocab_size = 3,
                                   .backup_initializer = initializers::constant(0.39)}}}};
  const FeatureColumn occupation = feature_column::categorical_column_with_vocabulary_file(
      "occupation", directory_ / "new", {.vocabulary_size = 3});
  Estimator estimator =
      LinearClassifier({.feature_columns = {occupation}, .n_classes = 4, .optimizer = idle()}, own);
  estimator.train(
      one_batch(Element::dict({{"occupation", Strings(std::vector<std::string>{"consultant"})}}),
                torch::tensor({1})),
      {.max_steps = 1});
  expect_values(variable(estimator, "occupation/weights"),
                torch::stack({old[0], old[2], torch::full({4}, 0.39)}));
  expect_values(variable(estimator, "bias_weights"), torch::zeros({4}));
}

// Pairs of a LIBSVM file stay pairs up to the rows they name: a padded one weighs 0, and is none.
TEST_P(LinearTest, PairsOfAFileAreIdsWithWeights) {
  std::ofstream(directory_ / "rows.libsvm") << "1 2:0.5 90:2\n-1 7:1\n";
  const FeatureColumn pairs = feature_column::weighted_categorical_column(
      feature_column::categorical_column_with_identity("indices", 100), "values");
  const InputFn input = [&] {
    return Dataset::from_files({directory_ / "rows.libsvm"},
                               data::libsvm_format({.num_features = 100, .dense = false}))
        .padded_batch(2)
        .map(feature_column::resolve({pairs}));
  };
  Estimator estimator = LinearRegressor(
      {.feature_columns = {pairs}, .optimizer = optim::sgd({.learning_rate = 1.0})}, config());
  estimator.train(input, {.max_steps = 1});
  // The gradient of a weight is -2 * label * value / 2.
  const Tensor weights = variable(estimator, "indices_weighted_by_values/weights").flatten();
  const Tensor moved = weights.ne(0).nonzero().flatten();
  ASSERT_TRUE(moved.equal(torch::tensor({1, 6, 89}))) << moved;
  expect_values(weights.index_select(0, moved), floats({0.5, -1, 2}));
}

// Only rows that a batch names have moved, and have slots.
TEST_P(LinearTest, AStepMovesTheRowsOfItsIds) {
  const FeatureColumn room = feature_column::categorical_column_with_identity("room", 50);
  Estimator estimator = LinearRegressor({.feature_columns = {room}}, config());
  estimator.train(
      one_batch(Element::dict({{"room", torch::tensor({{3, 7}, {7, -1}})}}), rows_of({{1}, {2}})),
      {.max_steps = 3});
  const Tensor moved = variable(estimator, "room/weights").ne(0).squeeze(1).nonzero().squeeze(1);
  EXPECT_TRUE(moved.equal(torch::tensor({3, 7}))) << moved;
}

}  // namespace
}  // namespace muster::inline v0_1
