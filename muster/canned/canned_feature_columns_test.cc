// Feature columns in a whole run: from texts to trained tables, on one replica and on several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/data/csv.h"
#include "muster/estimator/predictor.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/export/servable.h"
#include "muster/features/categorical_column.h"
#include "muster/features/column_receiver.h"
#include "muster/features/dense_column.h"
#include "muster/features/dense_features.h"
#include "muster/features/linear_model.h"
#include "muster/features/parse_spec.h"
#include "muster/features/resolve.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using namespace feature_column;  // NOLINT(google-build-using-namespace)
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::same_bits;

const std::string kLinear = "linear/linear_model/";
const std::string kDeep = "dnn/input_from_feature_columns/input_layer/";

// Persons with a city or none, up to three jobs, and an age; label 1: persons who are old, or
// smiths.
Dataset persons(int64_t rows) {
  Random random(derive_key(4, {id_of("persons")}));
  const std::vector<std::string> cities{"Oslo", "Bern", "Rome", ""}, jobs{"smith", "cook", ""};
  std::vector<std::string> city, job;
  Tensor age = torch::empty({rows}), label = torch::empty({rows}, kInt64);
  const auto pick = [&](const auto& from) {
    return from[static_cast<size_t>(random.uniform() * static_cast<double>(from.size()))];
  };
  for (int64_t i = 0; i < rows; ++i) {
    const double years = 80 * random.uniform();
    city.push_back(pick(cities));
    bool smith = false;
    for (int j = 0; j < 3; ++j) {
      job.push_back(pick(jobs));
      smith |= job.back() == "smith";
    }
    age[i] = years;
    label[i] = years > 50 || smith ? 1 : 0;
  }
  Strings flat(job);
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const std::string& each : job) {
    bytes += each;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Dataset::from_tensor_slices(Element::tuple(
      {Element::dict(
           {{"age", age}, {"city", Strings(city)}, {"job", Strings({rows, 3}, offsets, bytes)}}),
       label}));
}

struct Columns {
  FeatureColumn age =
      numeric_column("age", {.normalizer_fn = [](const Tensor& years) { return years / 40 - 1; }});
  FeatureColumn ages = bucketized_column(numeric_column("age"), {20, 50});
  FeatureColumn city = categorical_column_with_hash_bucket("city", 50);
  FeatureColumn job = categorical_column_with_vocabulary_list("job", {"cook", "smith", "clerk"});
  std::vector<FeatureColumn> wide{ages, job, crossed_column({ages, "city"}, 40)};
  std::vector<FeatureColumn> deep{age, embedding_column(city, 3), indicator_column(job)};

  std::vector<FeatureColumn> all() const {
    std::vector<FeatureColumn> both = wide;
    both.insert(both.end(), deep.begin(), deep.end());
    return both;
  }
};

ModelFn wide_and_deep() {
  const Columns columns;
  const LinearModel wide(columns.wide, {.units = 2});
  const DenseFeatures deep(columns.deep, {.name = "input_layer"});
  return [=](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
    const auto linear = context.model("linear", [&] { return wide; });
    const auto input = context.model("dnn/input_from_feature_columns", [&] { return deep; });
    const auto top = context.model("dnn", [] { return Dense(2); });
    const Tensor logits = linear(wide.inputs(features)).tensors[0] +
                          top(input(deep.inputs(features)).tensors[0].tanh());
    if (mode == Mode::kPredict) return EstimatorSpec::predict({{"class", logits.argmax(-1)}});
    const Tensor loss = testing::loss_of(logits, labels);
    if (mode == Mode::kEval) {
      return EstimatorSpec::eval(loss,
                                 {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
    }
    return EstimatorSpec::train(loss, context
                                          .optimizer(testing::make_optimizer(context.params().value(
                                              "optimizer", std::string("adagrad"))))
                                          .minimize(loss));
  };
}

Checkpoint train(const std::string& model_dir, const distribute::StrategyPtr& strategy,
                 const std::string& optimizer, const Environment& environment = {},
                 int64_t epochs = 2) {
  Estimator(wide_and_deep(), quiet_config(model_dir, strategy, environment),
            {{"optimizer", optimizer}})
      .train(
          [&] {
            return persons(53).shuffle(53).repeat(epochs).global_batch(12).map(
                resolve(Columns().all()), {.num_parallel_calls = 2});
          },
          {});
  return latest(model_dir);
}

TEST(FeatureColumnsTest, ReplicasComputeWhatOneComputes) {
  for (const char* optimizer : {"adam", "adagrad"}) {
    const TempDirectory directory;
    const Checkpoint one = train(directory / "1", distribute::one_device(), optimizer);
    const Checkpoint two = train(directory / "2", distribute::mirrored({.replicas = 2}), optimizer);
    EXPECT_LT(largest_difference(one, two), 1e-5) << optimizer;
    if (optimizer == std::string("adagrad")) continue;
    const LocalCluster cluster(2);
    testing::run_ranks(2, [&](int rank) {
      train(directory / "workers", distribute::multi_worker_mirrored(), optimizer,
            cluster.environment(rank));
    });
    EXPECT_TRUE(same_bits(latest(directory / "workers"), two)) << optimizer;
  }
}

TEST(FeatureColumnsTest, RowsThatNoExampleNamesStayAsTheyAre) {
  const TempDirectory directory;
  const Checkpoint begun =
      train(directory / "none", distribute::mirrored({.replicas = 2}), "adam", {}, /*epochs=*/1);
  const Checkpoint ended =
      train(directory / "some", distribute::mirrored({.replicas = 2}), "adam", {}, /*epochs=*/3);
  for (const std::string& name :
       {kDeep + "city_embedding/embedding_weights", kLinear + "age_bucketized_X_city/weights"}) {
    const Tensor moved = begun.tensors.at(name).ne(ended.tensors.at(name)).any(1);
    EXPECT_GT(moved.sum().item<int64_t>(), 0) << name;
    // There are three cities, in three buckets of ages; an unknown city is crossed too.
    EXPECT_LE(moved.sum().item<int64_t>(), 12) << name;
    const Tensor used = ended.tensors.at("Adam/v/" + name).ne(0).any(1);
    EXPECT_TRUE(moved.logical_and(used.logical_not()).sum().item<int64_t>() == 0) << name;
  }
  // The vocabulary has a word that no person has.
  const Tensor jobs = ended.tensors.at(kLinear + "job/weights");
  EXPECT_TRUE(jobs[2].eq(0).all().item<bool>());
  EXPECT_FALSE(jobs[1].eq(0).all().item<bool>());
}

TEST(FeatureColumnsTest, ItLearnsEvaluatesAndPredictsAndIsExportedForResolvedFeatures) {
  const TempDirectory directory;
  train(directory / "m", distribute::one_device(), "adagrad", {}, /*epochs=*/40);
  Estimator estimator(wide_and_deep(), quiet_config(directory / "m"), {{"optimizer", "adagrad"}});
  const auto resolved_fn = [] { return persons(80).batch(40).map(resolve(Columns().all())); };
  const auto measured = estimator.evaluate(resolved_fn);
  EXPECT_GT(measured.at("accuracy"), 0.9);
  // Features that are not resolved in the pipeline are resolved in the step.
  EXPECT_EQ(estimator.evaluate([] { return persons(80).batch(40); }), measured);

  // A server is asked with ids; numbers, and features made of numbers, may be given unchanged.
  const std::vector<std::string> ids{"city/ids", "job/ids", "age_bucketized_X_city/ids"};
  const Servable servable(*estimator.export_model(
      directory / "exports", raw_serving_input_receiver({{"age", {kFloat32, {1}}},
                                                         {ids[0], {kInt64, {1}}},
                                                         {ids[1], {kInt64, {3}}},
                                                         {ids[2], {kInt64, {1}}}})));
  std::optional<Element> batch;
  ASSERT_TRUE(batch = resolved_fn().iterator()->next());
  const Element features = batch->part(0);
  Servable::Tensors asked{{"age", features.at("age").value().tensor().unsqueeze(1)}};
  for (const std::string& key : ids) asked[key] = features.at(key).value().tensor();
  std::optional<Prediction> predicted;
  ASSERT_TRUE(predicted = estimator.predict(resolved_fn, {.yield_single_examples = false}).next());
  EXPECT_TRUE(servable.run("serving_default", asked).at("class").equal(predicted->at("class")));

  // Columns in front of the model take texts, as the pipeline does.
  ServingInputReceiver receiver = serving_input_receiver(Columns().all());
  receiver.features.at("job/ids").shape = {3};
  const Predictor exported(*estimator.export_model(directory / "texts", receiver));
  const Predictor trained(estimator);
  std::optional<Element> raw;
  ASSERT_TRUE(raw = persons(80).batch(40).iterator()->next());
  for (const Predictor* predictor : {&exported, &trained}) {
    EXPECT_TRUE(
        predictor->predict_features(raw->part(0)).at("class").equal(predicted->at("class")));
  }
}

TEST(FeatureColumnsTest, FeaturesThatAreMissingOrResolvedInATraceAreNamed) {
  const TempDirectory directory;
  Estimator estimator(wide_and_deep(), quiet_config(directory / "m"));
  const auto without_city = [] {
    return persons(10).batch(5).map([](const Element& batch) {
      return Element::tuple({Element::dict({{"age", batch.part(0).at("age")}}), batch.part(1)});
    });
  };
  EXPECT_THAT(error_of([&] { estimator.train(without_city, {.steps = 1}); }).message(),
              HasSubstr("has no feature 'city'; it has 'age'"));
  train(directory / "m", distribute::one_device(), "adagrad", {}, /*epochs=*/1);
  const Error error = error_of([&] {
    estimator.export_model(
        directory / "exports",
        raw_serving_input_receiver({{"age", {kFloat32, {1}}},
                                    {"city/ids", {kInt64, {1}}},
                                    {"job", {kInt64, {3}}},
                                    {"age_bucketized_X_city/ids", {kInt64, {1}}}}));
  });
  EXPECT_THAT(error.message(), HasSubstr("job"));
}

// The numbers of examples/wide_and_deep, in short.
TEST(FeatureColumnsTest, ACsvFileBecomesAModelOfColumns) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "set MUSTER_TEST_DATA to the folder of data sets";
  const std::string folder = std::string(data) + "/tabular/titanic/";
  const auto sex = categorical_column_with_vocabulary_list("sex", {"male", "female"});
  const auto cabin = categorical_column_with_hash_bucket("class", 10);
  const auto ages = bucketized_column(numeric_column("age"), {6, 14, 25, 40, 60});
  const std::vector<FeatureColumn> columns{sex, cabin, ages, crossed_column({"sex", "class"}, 50)};
  const LinearModel linear(columns);
  const data::CsvOptions csv = csv_options(columns, {"survived", data::CsvKind::kInt64});
  const auto rows = [&](const char* file) {
    return Dataset::from_files({folder + file}, data::csv_format(csv));
  };
  const ModelFn model_fn = [&](const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
    const Tensor logits =
        context.model("linear", [&] { return linear; })(linear.inputs(features)).tensors[0];
    const Tensor survived = labels.tensor().to(kFloat32).unsqueeze(1);
    const Tensor loss = losses::binary_crossentropy(survived, logits, {.from_logits = true});
    if (mode == Mode::kEval) {
      return EstimatorSpec::eval(
          loss, {{"accuracy", metrics::accuracy(labels, logits.squeeze(1).gt(0).to(kInt64))}});
    }
    return EstimatorSpec::train(
        loss, context.optimizer(optim::ftrl({.learning_rate = 0.2})).minimize(loss));
  };
  const TempDirectory directory;
  Estimator estimator(model_fn, quiet_config(directory / "m"));
  estimator.train(
      [&] { return rows("train.csv").shuffle(1000).repeat().batch(32).map(resolve(columns)); },
      {.max_steps = 200});
  EXPECT_GT(estimator.evaluate([&] { return rows("eval.csv").batch(64).map(resolve(columns)); })
                .at("accuracy"),
            0.76);
}

}  // namespace
}  // namespace muster::inline v0_1
