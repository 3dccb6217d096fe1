// Wide and deep estimators: which logits are added, which optimizer updates which part, and with
// which rate.
#include "muster/canned/dnn_linear_combined.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_run.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/heads/regression_head.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::numeric_column;
using ::testing::ElementsAre;
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

// linear 3 x + 1; dnn 0.5 relu(2 x) - 0.25.
const std::map<std::string, Tensor> kBothParts{{"linear/linear_model/x/weights", rows_of({{3}})},
                                               {"linear/linear_model/bias_weights", floats({1})},
                                               {"dnn/hiddenlayer_0/kernel", rows_of({{2}})},
                                               {"dnn/hiddenlayer_0/bias", floats({0})},
                                               {"dnn/logits/kernel", rows_of({{0.5}})},
                                               {"dnn/logits/bias", floats({-0.25})}};

class CombinedTest : public ::testing::TestWithParam<int> {
 protected:
  RunConfig config() const { return run_config(directory_ / "m", GetParam()); }
  // Continues from both parts with other optimizers, and a new step.
  RunConfig warm(const std::string& model_dir) const {
    leave_checkpoint(directory_ / "before", kBothParts);
    RunConfig own = config();
    own.model_dir = model_dir;
    own.warm_start_from = directory_ / "before";
    return own;
  }
  double value(const Estimator& estimator, const std::string& name) const {
    return estimator.get_variable_value(name).item<double>();
  }

  const TempDirectory directory_;
  const std::vector<FeatureColumn> x_{numeric_column("x")};
  const InputFn input_ =
      one_batch(Element::dict({{"x", rows_of({{2}})}}), rows_of({{10}}));  // predicted: 8.75
};
INSTANTIATE_TEST_SUITE_P(Replicas, CombinedTest, ::testing::Values(1, 2));

TEST_P(CombinedTest, LogitsOfBothPartsAreAdded) {
  leave_checkpoint(directory_ / "m", kBothParts);
  const Element features = Element::dict({{"x", rows_of({{2}, {-1}})}});
  const auto predicted = [&](const DNNLinearCombinedRegressorOptions& options) {
    std::optional<Prediction> all;
    EXPECT_TRUE(all = DNNLinearCombinedRegressor(options, config())
                          .predict(features_alone(features), {.yield_single_examples = false})
                          .next());
    return all->at("predictions");
  };
  expect_values(
      predicted({.linear_feature_columns = x_, .dnn_feature_columns = x_, .dnn_hidden_units = {1}}),
      rows_of({{7 + 1.75}, {-2 - 0.25}}));
  expect_values(predicted({.linear_feature_columns = x_}), rows_of({{7}, {-2}}));
  expect_values(predicted({.dnn_feature_columns = x_, .dnn_hidden_units = {1}}),
                rows_of({{1.75}, {-0.25}}));
}

// One loss, and each optimizer moves its own part alone.
TEST_P(CombinedTest, EachOptimizerUpdatesItsOwnVariables) {
  const double g = 2 * (8.75 - 10);
  const auto trained = [&](const char* model_dir, const OptimizerChoice& linear,
                           const OptimizerChoice& dnn) {
    Estimator estimator = DNNLinearCombinedRegressor({.linear_feature_columns = x_,
                                                      .linear_optimizer = linear,
                                                      .dnn_feature_columns = x_,
                                                      .dnn_optimizer = dnn,
                                                      .dnn_hidden_units = {1}},
                                                     warm(directory_ / model_dir));
    const auto record = std::make_shared<RecordLosses>();
    EXPECT_EQ(estimator.train(input_, {.max_steps = 1, .hooks = {record}}).global_step, 1);
    EXPECT_EQ(record->losses, std::vector<double>{1.25 * 1.25});
    return estimator;
  };
  const Estimator linear = trained("linear", optim::sgd({.learning_rate = 0.1}), idle());
  EXPECT_NEAR(value(linear, "linear/linear_model/x/weights"), 3 - 0.1 * g * 2, 1e-6);
  EXPECT_NEAR(value(linear, "linear/linear_model/bias_weights"), 1 - 0.1 * g, 1e-6);
  EXPECT_EQ(value(linear, "dnn/logits/kernel"), 0.5);
  EXPECT_EQ(value(linear, "dnn/hiddenlayer_0/kernel"), 2);

  const Estimator dnn = trained("dnn", idle(), optim::sgd({.learning_rate = 0.1}));
  EXPECT_EQ(value(dnn, "linear/linear_model/x/weights"), 3);
  EXPECT_NEAR(value(dnn, "dnn/logits/kernel"), 0.5 - 0.1 * g * 4, 1e-6);
  EXPECT_NEAR(value(dnn, "dnn/hiddenlayer_0/kernel"), 2 - 0.1 * g * 0.5 * 2, 1e-6);
}

// By name they have the rates of tf.estimator: 0.005 and 0.001, whatever the name is.
TEST_P(CombinedTest, AStepHasTheRatesOfBothOptimizers) {
  const double g = 2 * (8.75 - 10);
  Estimator usual = DNNLinearCombinedRegressor(
      {.linear_feature_columns = x_, .dnn_feature_columns = x_, .dnn_hidden_units = {1}},
      warm(directory_ / "usual"));
  usual.train(input_, {.max_steps = 1});
  const double root = std::sqrt(0.1 + g * g);
  EXPECT_NEAR(value(usual, "dnn/logits/bias"), -0.25 - 0.001 * g / (root + 1e-7), 1e-6);
  // Ftrl forgets where a weight began: z = g - (sqrt(a') - sqrt(a)) / rate * w.
  const double z = g - (root - std::sqrt(0.1)) / 0.005 * 1;
  EXPECT_NEAR(value(usual, "linear/linear_model/bias_weights"), -z * 0.005 / root, 1e-5);

  Estimator named = DNNLinearCombinedRegressor({.linear_feature_columns = x_,
                                                .linear_optimizer = "SGD",
                                                .dnn_feature_columns = x_,
                                                .dnn_optimizer = "SGD",
                                                .dnn_hidden_units = {1}},
                                               warm(directory_ / "named"));
  named.train(input_, {.max_steps = 1});
  EXPECT_NEAR(value(named, "linear/linear_model/bias_weights"), 1 - 0.005 * g, 1e-6);
  EXPECT_NEAR(value(named, "dnn/logits/bias"), -0.25 - 0.001 * g, 1e-7);
}

// Two of one name share nothing, and both continue.
TEST_P(CombinedTest, OptimizersOfOneNameAreTwo) {
  const auto estimator = [&] {
    return DNNLinearCombinedRegressor({.linear_feature_columns = x_,
                                       .linear_optimizer = "Adam",
                                       .dnn_feature_columns = x_,
                                       .dnn_optimizer = "Adam",
                                       .dnn_hidden_units = {1}},
                                      config());
  };
  estimator().train(input_, {.max_steps = 2});
  EXPECT_EQ(estimator().train(input_, {.max_steps = 5}).global_step, 5);
  const Checkpoint last = CheckpointManager(directory_ / "m").load_latest()->checkpoint;
  for (const char* name :
       {"linear_Adam/iterations", "dnn_Adam/iterations",
        "linear_Adam/m/linear/linear_model/x/weights", "dnn_Adam/m/dnn/logits/kernel"})
    EXPECT_TRUE(last.tensors.contains(name)) << name;
  EXPECT_FALSE(last.tensors.contains("dnn_Adam/m/linear/linear_model/x/weights"));
}

TEST_P(CombinedTest, AnEstimatorShowsWhatBothPartsShow) {
  const FeatureColumn room = feature_column::categorical_column_with_identity("room", 8);
  Estimator estimator = DNNLinearCombinedEstimator(
      RegressionHead({.label_dimension = 2}),
      {.linear_feature_columns = {room},
       .dnn_feature_columns = {feature_column::embedding_column(room, 3)},
       .dnn_hidden_units = {4}},
      config());
  estimator.train(
      one_batch(Element::dict({{"room", torch::tensor({1, 2})}}), rows_of({{1, 2}, {3, 4}})),
      {.max_steps = 1});
  EXPECT_THAT(
      estimator.get_variable_names(),
      ::testing::IsSupersetOf({"linear/linear_model/room/weights",
                               "linear/linear_model/bias_weights", "dnn/hiddenlayer_0/kernel",
                               "dnn/hiddenlayer_0/bias", "dnn/logits/kernel", "dnn/logits/bias",
                               "dnn/input_from_feature_columns/input_layer/room_embedding/"
                               "embedding_weights"}));
  const auto shown = testing::summaries_in(directory_ / "m");
  EXPECT_EQ(testing::number_of(shown, "fraction_of_zero_weights"), 1);  // before the first update
  EXPECT_TRUE(std::holds_alternative<formats::Histogram>(shown.at("bias")));
  EXPECT_TRUE(shown.contains("dnn/hiddenlayer_0/fraction_of_zero_values"));
  EXPECT_TRUE(shown.contains("dnn/logits/activation"));
}

}  // namespace
}  // namespace muster::inline v0_1
