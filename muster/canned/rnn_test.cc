// Recurrent networks on numbers that their formulas give by hand, through the Estimator, on one
// replica and on two.
#include "muster/canned/rnn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_run.h"
#include "muster/export/servable.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/resolve.h"
#include "muster/features/sequence_column.h"
#include "muster/heads/binary_class_head.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/multi_head.h"
#include "muster/heads/sequential_head.h"
#include "muster/layers/recurrent_cell.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::embedding_column;
using feature_column::numeric_column;
using feature_column::sequence_categorical_column_with_identity;
using feature_column::sequence_numeric_column;
using ::testing::AllOf;
using testing::expect_results;
using testing::expect_values;
using testing::features_alone;
using testing::floats;
using ::testing::HasSubstr;
using testing::idle;
using testing::largest_distance;
using testing::leave_checkpoint;
using testing::one_batch;
using testing::RecordLosses;
using testing::rows_of;
using testing::run_config;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

const std::vector<FeatureColumn> kPrice{sequence_numeric_column("price")};

// Prices of two examples: 10, 5 and then 2 alone.
Element prices() {
  return Element::dict({{"price", rows_of({{10, 5}, {2, 0}})},
                        {"price/row_lengths", torch::tensor({2, 1}, kInt64)}});
}
Tensor classes(const std::vector<std::vector<double>>& rows) { return rows_of(rows).to(kInt64); }

// Two units of a simple cell, and one logit or three.
std::map<std::string, Tensor> small_rnn(int64_t logits = 1) {
  return {{"rnn_model/rnn/kernel", rows_of({{.1, -.2}})},
          {"rnn_model/rnn/recurrent_kernel", rows_of({{.2, -.3}, {.3, -.4}})},
          {"rnn_model/rnn/bias", floats({.2, .5})},
          {"rnn_model/logits/kernel",
           logits == 1 ? rows_of({{-1}, {1}}) : rows_of({{-1, .5, .2}, {1, -.3, .1}})},
          {"rnn_model/logits/bias", logits == 1 ? floats({.3}) : floats({.3, .4, .5})}};
}

// The computation of small_rnn(), written out; `state` is changed.
double logit_of(double price, double state[2]) {
  const double a = std::tanh(.1 * price + .2 * state[0] + .3 * state[1] + .2);
  const double b = std::tanh(-.2 * price - .3 * state[0] - .4 * state[1] + .5);
  state[0] = a;
  state[1] = b;
  return -a + b + .3;
}
// The logits of the three steps there are.
std::vector<double> logits_of_steps() {
  double first[2] = {0, 0}, second[2] = {0, 0};
  const double one = logit_of(10, first);
  return {one, logit_of(5, first), logit_of(2, second)};
}
double log_loss(double logit, double label) {
  return std::log1p(std::exp(-logit)) + (1 - label) * logit;
}

class RnnTest : public ::testing::TestWithParam<int> {
 protected:
  RunConfig config(const std::string& name = "m") const {
    return run_config(directory_ / name, GetParam());
  }
  Prediction predicted(Estimator& estimator, const Element& features) const {
    std::optional<Prediction> all;
    EXPECT_TRUE(
        (all =
             estimator.predict(features_alone(features), {.yield_single_examples = false}).next()));
    return *all;
  }

  const TempDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Replicas, RnnTest, ::testing::Values(1, 2));

TEST_P(RnnTest, AClassIsThatOfTheLastStepThatCounts) {
  leave_checkpoint(directory_ / "m", small_rnn());
  Estimator estimator = RNNClassifier(
      {.sequence_feature_columns = kPrice, .units = {2}, .optimizer = idle()}, config());
  const std::vector<double> logits = logits_of_steps();
  // The reference has these, rounded.
  EXPECT_NEAR(logits[0], -1.4388, 1e-4);
  EXPECT_NEAR(logits[1], -0.6033, 1e-4);
  EXPECT_NEAR(logits[2], 0.0197, 1e-4);
  const Prediction all = predicted(estimator, prices());
  expect_values(all.at("logits"), rows_of({{logits[1]}, {logits[2]}}));
  expect_values(all.at("class_ids"), classes({{0}, {1}}));
  const double loss = (log_loss(logits[1], 0) + log_loss(logits[2], 1)) / 2;
  EXPECT_NEAR(loss, 1.1196611 / 2, 1e-6);
  const auto labels = one_batch(prices(), classes({{0}, {1}}));
  expect_results(estimator.evaluate(labels, {.steps = 1}),
                 {{"loss", loss}, {"average_loss", loss}, {"accuracy", 1}, {"label/mean", .5}},
                 1e-5);
  const auto record = std::make_shared<RecordLosses>();
  estimator.train(labels, {.steps = 1, .hooks = {record}});
  EXPECT_NEAR(record->losses.at(0), loss, 1e-5);
}

// Replicas have other numbers of steps that count: the mean is over all of these.
TEST_P(RnnTest, StepsAreExamplesWherePaddingDoesNotCount) {
  leave_checkpoint(directory_ / "m", small_rnn());
  Estimator estimator = RNNClassifier({.sequence_feature_columns = kPrice,
                                       .units = {2},
                                       .cell_type = "simple_rnn",
                                       .return_sequences = true,
                                       .optimizer = idle()},
                                      config());
  const std::vector<double> logits = logits_of_steps();
  const double loss =
      (log_loss(logits[0], 0) + log_loss(logits[1], 1) + log_loss(logits[2], 0)) / 3;
  EXPECT_NEAR(loss, 1.9556 / 3, 1e-4);
  // The value at padding is not even a class.
  const auto labels = one_batch(prices(), classes({{0, 1}, {0, -7}}));
  expect_results(estimator.evaluate(labels, {.steps = 1}),
                 {{"loss", loss}, {"average_loss", loss}, {"accuracy", 1.0 / 3}}, 1e-5);
  const auto record = std::make_shared<RecordLosses>();
  estimator.train(labels, {.steps = 1, .hooks = {record}});
  EXPECT_NEAR(record->losses.at(0), loss, 1e-5);
  const Prediction all = predicted(estimator, prices());
  EXPECT_EQ(all.at("logits").sizes(), torch::IntArrayRef({2, 2, 1}));
  EXPECT_TRUE(all.at("sequence_mask").equal(torch::tensor({{true, true}, {true, false}})));
}

// A mask among the features is taken in place of the lengths, weights belong to steps, and labels
// may be names.
TEST_P(RnnTest, WeightsAndMasksAreThoseOfSteps) {
  leave_checkpoint(directory_ / "m", small_rnn());
  Estimator estimator = RNNClassifier({.sequence_feature_columns = kPrice,
                                       .units = {2},
                                       .return_sequences = true,
                                       .weight_column = "w",
                                       .label_vocabulary = {"no", "yes"},
                                       .optimizer = idle(),
                                       .sequence_mask = "counts"},
                                      config());
  const Element features = Element::dict({{"price", rows_of({{10, 5}, {2, 0}})},
                                          {"price/row_lengths", torch::tensor({2, 1}, kInt64)},
                                          {"counts", torch::tensor({{true, false}, {true, false}})},
                                          {"w", rows_of({{2, 5}, {3, 7}})}});
  const Strings names({2, 2}, {0, 2, 2, 5, 5}, "noyes");
  const std::vector<double> logits = logits_of_steps();
  const double sum = 2 * log_loss(logits[0], 0) + 3 * log_loss(logits[2], 1);
  expect_results(estimator.evaluate(one_batch(features, names), {.steps = 1}),
                 {{"loss", sum / 2}, {"average_loss", sum / 5}, {"label/mean", .6}}, 1e-5);
}

TEST_P(RnnTest, TheContextIsInEveryStep) {
  std::map<std::string, Tensor> weights = small_rnn();
  weights["rnn_model/rnn/kernel"] = rows_of({{.1, -.2}, {1, .9}});
  leave_checkpoint(directory_ / "m", weights);
  Estimator estimator = RNNEstimator(BinaryClassHead({}),
                                     {.sequence_feature_columns = kPrice,
                                      .context_feature_columns = {numeric_column("open")},
                                      .units = {2}},
                                     config());
  const Element features = Element::dict({{"open", rows_of({{0}, {-.5}})},
                                          {"price", rows_of({{10, 5}, {2, 0}})},
                                          {"price/row_lengths", torch::tensor({2, 1}, kInt64)}});
  const double a = std::tanh(.2 - .5 + .2), b = std::tanh(-.4 - .45 + .5);
  expect_values(predicted(estimator, features).at("logits"),
                rows_of({{logits_of_steps()[1]}, {-a + b + .3}}));
}

TEST_P(RnnTest, ANumberIsThatOfTheLastStepOrOfEach) {
  leave_checkpoint(directory_ / "m", small_rnn(3));
  Estimator last = RNNRegressor(
      {.sequence_feature_columns = kPrice, .units = {2}, .label_dimension = 3, .optimizer = idle()},
      config());
  expect_values(predicted(last, prices()).at("predictions")[0].round(/*decimals=*/4),
                floats({-0.6033, 0.7777, 0.5698}));
  leave_checkpoint(directory_ / "s", small_rnn());
  Estimator each = RNNRegressor({.sequence_feature_columns = kPrice,
                                 .units = {2},
                                 .return_sequences = true,
                                 .optimizer = idle()},
                                config("s"));
  const std::vector<double> logits = logits_of_steps();
  const Tensor labels = rows_of({{logits[0] + 1, logits[1]}, {logits[2] - 2, 100}});
  expect_results(each.evaluate(one_batch(prices(), labels), {.steps = 1}),
                 {{"loss", 5.0 / 3}, {"average_loss", 5.0 / 3}}, 1e-5);
}

// Clicks of this many sessions, each of 1 to 6 steps with a page, followed by whether the last page
// was above 3.
Dataset sessions(int64_t rows) {
  const Tensor number = torch::arange(rows);
  const Tensor length = number * 5 % 6 + 1;
  const Tensor step = torch::arange(6);
  const Tensor pages =
      torch::where(step < length.unsqueeze(1), (number.unsqueeze(1) * 7 + step * 3) % 8, -1);
  const Tensor last = pages.gather(1, (length - 1).unsqueeze(1)).squeeze(1);
  return Dataset::from_tensor_slices(
      Element::tuple({Element::dict({{"age", (number % 10).to(kFloat32)}, {"page", pages}}),
                      last.gt(3).to(kInt64)}));
}

TEST_P(RnnTest, EveryCellLearns) {
  const FeatureColumn page =
      embedding_column(sequence_categorical_column_with_identity("page", 8), 4);
  const auto train_on = [](int64_t rows) {
    return [=] { return sessions(rows).repeat().global_batch(32); };
  };
  for (const std::string cell : {"simple_rnn", "lstm", "gru"}) {
    Estimator estimator = RNNClassifier({.sequence_feature_columns = {page},
                                         .context_feature_columns = {numeric_column("age")},
                                         .units = {8, 4},
                                         .cell_type = cell,
                                         .optimizer = optim::adam({.learning_rate = 0.03})},
                                        config(cell));
    estimator.train(train_on(96), {.max_steps = 60});
    const auto result = estimator.evaluate([] { return sessions(96).batch(32); });
    EXPECT_GT(result.at("accuracy"), 0.95) << cell;
  }
  EXPECT_THAT(RNNClassifier({.sequence_feature_columns = {page},
                             .context_feature_columns = {numeric_column("age")},
                             .units = {8, 4},
                             .cell_type = "gru",
                             .optimizer = idle()},
                            config("gru"))
                  .get_variable_names(),
              ::testing::IsSupersetOf(
                  {"rnn_model/rnn/kernel", "rnn_model/rnn/recurrent_kernel", "rnn_model/rnn/bias",
                   "rnn_model/rnn_1/kernel", "rnn_model/logits/kernel", "rnn_model/logits/bias",
                   "rnn_model/sequence_features/page_embedding/embedding_weights"}));
}

// An export takes resolved features, and sequences of any length.
TEST_P(RnnTest, IsExportedForResolvedFeatures) {
  const FeatureColumn page =
      embedding_column(sequence_categorical_column_with_identity("page", 8), 4);
  Estimator estimator = RNNClassifier(
      {.sequence_feature_columns = {page}, .units = {5}, .cell_type = "lstm", .n_classes = 3},
      config());
  estimator.train([] { return sessions(32).global_batch(32); });
  const Servable served(
      estimator
          .export_model(directory_ / "export",
                        raw_serving_input_receiver(
                            {{"page/ids", {kInt64, {6, 1}}}, {"page/lengths", {kInt64, {}}}}))
          .value());
  const auto input = [] {
    return sessions(8).map([](const Element& row) { return row.part(0); }).batch(8);
  };
  std::optional<Element> batch;
  ASSERT_TRUE(batch = input().iterator()->next());
  const Element resolved = feature_column::resolve({page})(*batch);
  const auto answer =
      served.run("predict", {{"page/ids", resolved.at("page/ids").value().tensor()},
                             {"page/lengths", resolved.at("page/lengths").value().tensor()}});
  const Prediction all = predicted(estimator, *batch);
  EXPECT_TRUE(torch::allclose(answer.at("logits"), all.at("logits"), 1e-5, 1e-6));
}

// With an optimizer by name the rate is 0.05, and gradients are no longer than 5.
TEST_P(RnnTest, AnOptimizerByNameClipsGradients) {
  leave_checkpoint(directory_ / "m", small_rnn());
  Estimator estimator = RNNRegressor(
      {.sequence_feature_columns = kPrice, .units = {2}, .optimizer = "SGD"}, config());
  const Tensor before = estimator.get_variable_value("rnn_model/logits/bias");
  estimator.train(one_batch(prices(), rows_of({{1000}, {1000}})), {.steps = 1});
  expect_values(estimator.get_variable_value("rnn_model/logits/bias"), before + 0.05 * 5);
}

// A built-in cell and two on top of each other, made by a function, are the layers of units.
TEST_P(RnnTest, ACellOfOnesOwn) {
  const auto trained = [&](RNNClassifierOptions options, const std::string& name) {
    options.sequence_feature_columns = kPrice;
    Estimator estimator = RNNClassifier(options, config(name));
    const auto record = std::make_shared<RecordLosses>();
    estimator.train(one_batch(prices(), classes({{0}, {1}})), {.max_steps = 3, .hooks = {record}});
    return std::pair{record->losses, estimator.get_variable_names()};
  };
  const auto [losses, names] =
      trained({.rnn_cell_fn =
                   [] {
                     return StackedRNNCells({GRUCell(3, {.name = "low"}), GRUCell(2)});
                   }},
              "own");
  EXPECT_LT(losses[2], losses[0]);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"rnn_model/low/kernel", "rnn_model/gru_cell/kernel",
                                              "rnn_model/logits/kernel"}));
}

TEST(RnnInputTest, SaysWhatIsWrong) {
  const auto rnn = [](RNNClassifierOptions options) {
    return message_of([&] { RNNClassifier(options); });
  };
  const auto cell = [] { return GRUCell(2); };
  EXPECT_EQ(rnn({.units = {2}}), "RNNClassifier: SequenceFeatures: there are no columns");
  EXPECT_THAT(rnn({.sequence_feature_columns = {numeric_column("age")}, .units = {2}}),
              StartsWith("RNNClassifier: SequenceFeatures: "));
  EXPECT_THAT(
      rnn({.sequence_feature_columns = kPrice, .context_feature_columns = kPrice, .units = {2}}),
      StartsWith("RNNClassifier: DenseFeatures: "));
  EXPECT_THAT(rnn({.sequence_feature_columns = kPrice}),
              HasSubstr("RNNClassifier: units is []; it must be the sizes of one or more"));
  EXPECT_THAT(rnn({.sequence_feature_columns = kPrice, .units = {4, 0}}),
              HasSubstr("units is [4, 0]; "));
  EXPECT_THAT(rnn({.sequence_feature_columns = kPrice, .units = {4}, .rnn_cell_fn = cell}),
              HasSubstr("units is [4], cell_type is \"\" and rnn_cell_fn is set"));
  EXPECT_THAT(rnn({.sequence_feature_columns = kPrice, .cell_type = "gru", .rnn_cell_fn = cell}),
              HasSubstr("cell_type is \"gru\" and rnn_cell_fn is set"));
  EXPECT_THAT(rnn({.sequence_feature_columns = kPrice, .units = {2}, .cell_type = "lst"}),
              AllOf(StartsWith("RNNClassifier: "),
                    HasSubstr("no cell_type 'lst'; it has 'simple_rnn', 'lstm', 'gru'")));
  EXPECT_THAT(rnn({.sequence_feature_columns = kPrice, .units = {2}, .optimizer = "Adm"}),
              HasSubstr("has no name 'Adm'"));
  EXPECT_THAT(rnn({.sequence_feature_columns = kPrice,
                   .units = {2},
                   .return_sequences = true,
                   .sequence_mask = ""}),
              HasSubstr("sequence_length_mask is empty"));
  EXPECT_THAT(message_of([&] {
                RNNEstimator(
                    BinaryClassHead({}),
                    {.sequence_feature_columns = kPrice, .units = {2}, .return_sequences = true});
              }),
              HasSubstr("return_sequences is true, and the head, BinaryClassHead, is none of "
                        "sequences"));
  EXPECT_THAT(message_of([&] {
                RNNEstimator(SequentialHeadWrapper(BinaryClassHead({.name = "b"})),
                             {.sequence_feature_columns = kPrice, .units = {2}});
              }),
              HasSubstr("the head, BinaryClassHead \"b\", is one of sequences"));
  EXPECT_THAT(message_of([&] {
                SequentialHeadWrapper(MultiHead({.heads = {BinaryClassHead({.name = "b"})}}));
              }),
              HasSubstr("static_head is MultiHead"));
}

TEST(RnnInputTest, SaysWhatABatchLacks) {
  const TempDirectory directory;
  const auto trained = [&](const Element& features, const Element& labels) {
    return message_of([&] {
      RNNClassifier({.sequence_feature_columns = kPrice,
                     .units = {2},
                     .return_sequences = true,
                     .weight_column = "w"},
                    run_config(directory / "m"))
          .train(one_batch(features, labels), {.max_steps = 1});
    });
  };
  const Element with_weights =
      Element::dict({{"price", rows_of({{10, 5}, {2, 0}})}, {"w", rows_of({{1, 1}, {1, 1}})}});
  EXPECT_THAT(trained(Element::dict({{"w", rows_of({{1, 1}})}}), classes({{0, 1}})),
              AllOf(HasSubstr("RNNClassifier: "), HasSubstr("no feature 'price'")));
  EXPECT_THAT(trained(prices(), classes({{0, 1}, {0, 0}})),
              HasSubstr("BinaryClassHead: the features have no 'w'"));
  EXPECT_THAT(trained(with_weights, classes({{0}, {1}})),
              HasSubstr("BinaryClassHead: labels is int64[2, 1]; it must be [2, 2, ...], as the "
                        "logits"));
  const Element odd_mask = Element::dict({{"price", rows_of({{10, 5}, {2, 0}})},
                                          {"sequence_mask", rows_of({{1}, {1}})},
                                          {"w", rows_of({{1, 1}, {1, 1}})}});
  EXPECT_THAT(trained(odd_mask, classes({{0, 1}, {0, 0}})),
              HasSubstr("the feature 'sequence_mask' is float32[2, 1]; it must be [2, 2]"));
}

}  // namespace
}  // namespace muster::inline v0_1
