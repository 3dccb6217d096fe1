// LinearSDCA: the dual problem's solution is the primal one's, on one replica and on two.
#include "muster/canned/linear_sdca.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/internal/linear_part.h"
#include "muster/canned/internal/sdca_part.h"
#include "muster/canned/internal/test_run.h"
#include "muster/canned/linear.h"
#include "muster/data/libsvm.h"
#include "muster/distribute/variable_table.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/layers/step_context.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::categorical_column_with_identity;
using feature_column::numeric_column;
using ::testing::AllOf;
using testing::features_alone;
using ::testing::HasSubstr;
using testing::largest_distance;
using testing::rows_of;
using testing::run_config;
using ::testing::StartsWith;

// People with an id, an age and up to two towns; `price` and `bought` depend on both.
Element people_with_ids(int64_t rows) {
  const Tensor number = torch::arange(rows);
  const Tensor age = (number * 13 % 80).to(kFloat32) / 40 - 1;
  const Tensor towns =
      torch::stack({number * 7 % 6, torch::where(number % 3 == 0, -1, number % 6)}, 1);
  const Tensor noise = (number.to(kFloat32) * 1.7).sin();
  const Tensor price = 3 * age + (towns.select(1, 0) - 2) + noise;
  std::vector<std::string> ids;
  for (int64_t i = 0; i < rows; ++i) ids.push_back("person" + std::to_string(i));
  return Element::tuple({Element::dict({{"age", age},
                                        {"id", Strings(ids)},
                                        {"town", towns},
                                        {"weight", (number % 3 + 1).to(kFloat32)}}),
                         Element::dict({{"bought", price.gt(0).to(kInt64)}, {"price", price}})});
}
InputFn people_batches(const char* label, int64_t rows, int64_t size) {
  return [=] {
    return Dataset::from_tensor_slices(people_with_ids(rows))
        .map([label](const Element& row) {
          return Element::tuple({row.part(0), row.part(1).at(label)});
        })
        .shuffle(rows)
        .repeat()
        .global_batch(size);
  };
}
std::vector<FeatureColumn> columns() {
  return {numeric_column("age"), categorical_column_with_identity("town", 6)};
}

// Ages, the frequency of each town, and 1: the columns of the weights below.
Tensor matrix_of_people(int64_t rows) {
  const Element features = people_with_ids(rows).part(0);
  const Tensor towns = features.at("town").value().tensor();
  Tensor x = torch::zeros({rows, 8}, kFloat64);
  x.select(1, 0).copy_(features.at("age").value().tensor());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < 2; ++k) {
      const auto town = towns[i][k].item<int64_t>();
      if (town >= 0) x[i][1 + town] += 1;
    }
  }
  x.select(1, 7).fill_(1);
  return x;
}
Tensor weights_of_people(const Estimator& estimator) {
  return torch::cat({estimator.get_variable_value("linear/linear_model/age/weights").flatten(),
                     estimator.get_variable_value("linear/linear_model/town/weights").flatten(),
                     estimator.get_variable_value("linear/linear_model/bias_weights")})
      .to(kFloat64);
}

class LinearSdcaTest : public ::testing::TestWithParam<int> {
 protected:
  RunConfig config(const std::string& name = "m") const {
    return run_config(directory_ / name, GetParam());
  }
  const TempDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Replicas, LinearSdcaTest, ::testing::Values(1, 2));

TEST_P(LinearSdcaTest, SquaredLossesHaveTheClosedForm) {
  Estimator estimator = LinearRegressor(
      {.feature_columns = columns(),
       .weight_column = "weight",
       .optimizer = LinearSDCA{.example_id_column = "id", .symmetric_l2_regularization = 2}},
      config());
  // Two parts, which do not see each other's steps, need more of them.
  estimator.train(people_batches("price", 60, 17), {.max_steps = 300 * GetParam()});
  const Element all = people_with_ids(60);
  const Tensor x = matrix_of_people(60);
  const Tensor y = all.part(1).at("price").value().tensor().to(kFloat64);
  const Tensor s = all.part(0).at("weight").value().tensor().to(kFloat64);
  const Tensor normal = x.t().matmul(s.unsqueeze(1) * x) + 2 * torch::eye(8, kFloat64);
  const Tensor best = at::linalg_solve(normal, x.t().matmul(s * y));
  EXPECT_TRUE(torch::allclose(weights_of_people(estimator), best, 3e-4, 3e-4))
      << weights_of_people(estimator) << best;
}

// There the gradient of the regularized sum is 0; with l1 it is at most l1 where a weight is 0.
TEST_P(LinearSdcaTest, LogisticLossesEndWhereTheGradientIsZero) {
  for (const double l1 : {0.0, 2.0}) {
    for (const bool adaptive : {false, true}) {
      const std::string name = adaptive ? "adaptive" : "plain";
      Estimator estimator =
          LinearClassifier({.feature_columns = columns(),
                            .optimizer = LinearSDCA{.example_id_column = "id",
                                                    .symmetric_l1_regularization = l1,
                                                    .symmetric_l2_regularization = 0.5,
                                                    .adaptive = adaptive}},
                           config(name + (l1 > 0 ? "_l1" : "")));
      estimator.train(people_batches("bought", 48, 16), {.max_steps = 400});
      const Tensor w = weights_of_people(estimator), x = matrix_of_people(48);
      const Tensor y =
          people_with_ids(48).part(1).at("bought").value().tensor().to(kFloat64) * 2 - 1;
      const Tensor slope = -(x.t().matmul(y * (-(y * x.matmul(w))).sigmoid())) * 1.0;
      const Tensor gradient = slope + 0.5 * w + l1 * w.sign();
      const Tensor off = torch::where(w == 0, (slope.abs() - l1).clamp_min(0), gradient.abs());
      EXPECT_LT(off.max().item<double>(), 2e-3) << name << l1 << w;
      EXPECT_EQ(l1 > 0, w.eq(0).any().item<bool>()) << w;
    }
  }
}

// Examples that are all alike: replicas that did not know of each other would go twice as far as
// they should, and back, without end.
TEST_P(LinearSdcaTest, ReplicasDoNotGoTooFar) {
  Estimator estimator = LinearRegressor({.feature_columns = {numeric_column("x")},
                                         .optimizer = LinearSDCA{.example_id_column = "id"}},
                                        config());
  const Element rows =
      Element::tuple({Element::dict({{"id", torch::arange(8)}, {"x", torch::full({8, 1}, 2.0)}}),
                      torch::ones({8, 1})});
  estimator.train([=] { return Dataset::from_tensor_slices(rows).repeat().global_batch(8); },
                  {.max_steps = 300});
  // The closed form of 8 equal rows (2, 1): 16 / (1 + 8 * 5), and a bias of half that.
  EXPECT_NEAR(estimator.get_variable_value("linear/linear_model/x/weights").item<double>(),
              16.0 / 41, 1e-5);
  EXPECT_NEAR(estimator.get_variable_value("linear/linear_model/bias_weights").item<double>(),
              8.0 / 41, 1e-5);
}

TEST_P(LinearSdcaTest, AResumedRunIsTheSame) {
  const auto make = [&](const std::string& name) {
    return LinearClassifier(
        {.feature_columns = columns(),
         .label_vocabulary = {"no", "yes"},
         .optimizer = LinearSDCA{.example_id_column = "id", .adaptive = true, .num_examples = 70}},
        config(name));
  };
  const InputFn input = [] {
    return Dataset::from_tensor_slices(people_with_ids(40))
        .map([](const Element& row) {
          const bool yes = row.part(1).at("bought").value().tensor().item<int64_t>() == 1;
          return Element::tuple({row.part(0), Element(yes ? "yes" : "no")});
        })
        .shuffle(40)
        .repeat()
        .global_batch(7);
  };
  make("whole").train(input, {.max_steps = 20});
  for (const int64_t steps : {6, 13, 20}) make("parts").train(input, {.max_steps = steps});
  EXPECT_EQ(largest_distance(make("parts"), make("whole")), 0);
}

// An id that comes twice in a batch, as two epochs meet, is one example.
TEST_P(LinearSdcaTest, TheSumOfDualsIsTheWeights) {
  Estimator estimator = LinearRegressor(
      {.feature_columns = columns(), .optimizer = LinearSDCA{.example_id_column = "id"}}, config());
  estimator.train(people_batches("price", 10, 8), {.max_steps = 7});
  const Tensor duals = estimator.get_variable_value("linear/sdca/duals");
  EXPECT_EQ(duals.ne(0).sum().item<int64_t>(), 10);
  // Every example has a bias of 1, and l2 is 1.
  EXPECT_NEAR(estimator.get_variable_value("linear/linear_model/bias_weights").item<double>(),
              duals.sum().item<double>(), 1e-5);
}

// The rows of a file of LIBSVM's, with their numbers as ids.
Element numbered_rows(const std::string& path, int64_t rows, int64_t positives) {
  const Dataset all =
      Dataset::from_files({path}, data::libsvm_format({.num_features = 123})).batch(rows);
  std::optional<Element> batch;
  EXPECT_TRUE(batch = all.iterator()->next());
  const Tensor labels = batch->part(1).value().tensor();
  EXPECT_EQ(labels.size(0), rows);
  EXPECT_EQ(labels.sum().item<int64_t>(), positives);
  return Element::tuple({Element::dict({{"id", torch::arange(rows)},
                                        {"x", batch->part(0).at("features").value().tensor()}}),
                         labels});
}

// The README of this data has an accuracy of 0.8498 for logistic regression.
TEST(LinearSdcaRealDataTest, ReachesWhatLogisticRegressionReaches) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "set MUSTER_TEST_DATA to the folder of data sets";
  const std::string path = std::string(data) + "/sparse/a9a";
  const Element rows = numbered_rows(path, 32560, 7841);
  const Element test = numbered_rows(path + ".t", 16281, 3846);
  const TempDirectory directory;
  Estimator estimator = LinearClassifier(
      {.feature_columns = {numeric_column("x", {.shape = {123}})},
       .optimizer = LinearSDCA{.example_id_column = "id", .symmetric_l2_regularization = 10}},
      run_config(directory / "m"));
  estimator.train(
      [=] { return Dataset::from_tensor_slices(rows).shuffle(32560).repeat(3).global_batch(512); });
  const auto result =
      estimator.evaluate([=] { return Dataset::from_tensor_slices(test).batch(4096); });
  EXPECT_NEAR(result.at("accuracy"), 0.8498, 0.003);
  EXPECT_LT(result.at("average_loss"), 0.3255);
  EXPECT_NEAR(result.at("label/mean"), 3846.0 / 16281, 1e-5);
}

// The size of the replicas' messages follows the batch, and not the sizes of the columns.
TEST(LinearSdcaTrafficTest, ReplicasSendTheRowsThatChanged) {
  const auto sent = [](int64_t rooms) {
    const nlohmann::json params = nlohmann::json::object();
    distribute::VariableTable variables(1);
    ModelContext context(Mode::kTrain, variables, 1, params);
    size_t bytes = 0;
    StepContext::of(context.calls()).set_replicas(2, [&](const Tensor& value) {
      bytes += value.nbytes();
      return value;  // the other one has no rows
    });
    const internal::LinearPart linear("E", {categorical_column_with_identity("room", rooms)}, 1,
                                      feature_column::Combiner::kSum);
    const internal::SdcaPart sdca("E", {.example_id_column = "id", .num_examples = 8}, {});
    const Features features(
        Element::dict({{"id", torch::arange(3)}, {"room", torch::tensor({1, 5, 1})}}));
    (void)linear.logits(features, context);
    const optim::TrainOp step =
        sdca.train_op(features, Labels(Element(torch::ones({3}))), linear.model(),
                      internal::LinearPart::kModelScope, context);
    for (const auto& update : step.updates) update();
    const Tensor weights = variables.find("linear/linear_model/room/weights")->value();
    EXPECT_EQ(weights.ne(0).sum().item<int64_t>(), 2);
    return bytes;
  };
  const size_t few = sent(10);
  EXPECT_EQ(sent(1000000), few);
  EXPECT_LT(few, 500u);
}

TEST(LinearSdcaInputTest, SaysWhichOptionsAreWrong) {
  const auto refused = [](LinearSDCA sdca) {
    return message_of([&] { LinearRegressor({.feature_columns = columns(), .optimizer = sdca}); });
  };
  EXPECT_EQ(refused({}),
            "LinearRegressor: LinearSDCA: example_id_column is empty; it must be the name of a "
            "feature");
  EXPECT_THAT(refused({.example_id_column = "id", .num_loss_partitions = 0}),
              HasSubstr("num_loss_partitions is 0; it must be at least 1"));
  EXPECT_THAT(refused({.example_id_column = "id", .symmetric_l1_regularization = -1}),
              HasSubstr("symmetric_l1_regularization is -1; it must be 0 or more"));
  EXPECT_THAT(refused({.example_id_column = "id", .symmetric_l2_regularization = 0}),
              HasSubstr("symmetric_l2_regularization is 0; it must be more than 0"));
  EXPECT_THAT(refused({.example_id_column = "id", .num_examples = 0}),
              HasSubstr("num_examples is 0; it must be at least 1"));
  const LinearSDCA good{.example_id_column = "id"};
  EXPECT_EQ(message_of([&] {
              LinearClassifier({.feature_columns = columns(), .n_classes = 3, .optimizer = good});
            }),
            "LinearClassifier: not supported: LinearSDCA with n_classes = 3; it must be 2");
  EXPECT_EQ(
      message_of([&] {
        LinearRegressor({.feature_columns = columns(), .label_dimension = 2, .optimizer = good});
      }),
      "LinearRegressor: not supported: LinearSDCA with label_dimension = 2; it must be 1");
  EXPECT_THAT(message_of([&] {
                LinearRegressor({.feature_columns = columns(),
                                 .optimizer = good,
                                 .sparse_combiner = feature_column::Combiner::kMean});
              }),
              HasSubstr("another sparse_combiner than kSum"));
  EXPECT_THAT(message_of([&] {
                LinearRegressor({.feature_columns = columns(), .optimizer = good},
                                {.accumulate_steps = 2});
              }),
              HasSubstr("RunConfig.accumulate_steps = 2"));
}

TEST(LinearSdcaInputTest, SaysWhatABatchLacks) {
  const TempDirectory directory;
  int runs = 0;
  const auto trained = [&](LinearSDCA sdca, const Element& element) {
    return message_of([&] {
      LinearClassifier({.feature_columns = {numeric_column("age")}, .optimizer = sdca},
                       run_config(directory / std::to_string(runs++)))
          .train([=] { return Dataset::from_tensors(element); }, {.steps = 1});
    });
  };
  const Tensor age = rows_of({{1}, {2}, {3}});
  const Tensor labels = rows_of({{1}, {0}, {1}});
  const auto features = [&](const Element& id) {
    return Element::dict({{"age", age}, {"id", id}});
  };
  EXPECT_THAT(
      trained({.example_id_column = "key"}, Element::tuple({features(torch::arange(3)), labels})),
      AllOf(HasSubstr("LinearClassifier: the features have no example_id_column 'key'"),
            HasSubstr("they have 'age', 'id'")));
  EXPECT_THAT(trained({.example_id_column = "id"}, Element::tuple({features(age), labels})),
              HasSubstr("the example_id_column 'id' is float32[3, 1]; it must be texts or whole"));
  EXPECT_THAT(message_of([&] {
                LinearClassifier({.feature_columns = {feature_column::embedding_column(
                                      categorical_column_with_identity("id", 3), 2)},
                                  .optimizer = LinearSDCA{.example_id_column = "id"}},
                                 run_config(directory / "embedding"))
                    .train([=] {
                      return Dataset::from_tensors(Element::tuple(
                          {Element::dict({{"id", torch::arange(3)}}), rows_of({{1}, {0}, {1}})}));
                    });
              }),
              HasSubstr("LinearClassifier: the column 'id_embedding' has a table"));
  EXPECT_THAT(trained({.example_id_column = "id"},
                      Element::tuple({features(torch::arange(3)), labels / 2})),
              HasSubstr("a label is 0.5; LinearSDCA needs 0 or 1"));
  EXPECT_THAT(trained({.example_id_column = "id", .num_examples = 1},
                      Element::tuple({features(torch::arange(3)), labels})),
              HasSubstr("num_examples is 1, and there are more different examples"));
}

}  // namespace
}  // namespace muster::inline v0_1
