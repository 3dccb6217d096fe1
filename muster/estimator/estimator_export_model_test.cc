#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/export/servable.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::kFeatures;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::two_layers;

ServingInputReceiver receiver() {
  return raw_serving_input_receiver({{"x", {kFloat32, {kFeatures}}}});
}

// The features of 16 examples.
Tensor some_rows() {
  std::optional<Element> batch;
  EXPECT_TRUE(batch = testing::examples(16).batch(16).iterator()->next());
  return batch->part(0).at("x").value().tensor();
}

Prediction predicted(Estimator& estimator, const PredictOptions& options = {}) {
  PredictOptions whole = options;
  whole.yield_single_examples = false;
  std::optional<Prediction> given;
  EXPECT_TRUE(
      (given = estimator.predict([] { return testing::examples(16).batch(16); }, whole).next()));
  return *given;
}

class ExportModelTest : public ::testing::Test {
 protected:
  RunConfig config() {
    RunConfig made = quiet_config(directory_ / "m");
    made.clock = &clock_;
    return made;
  }
  std::string dir() const { return directory_ / "export"; }

  const TempDirectory directory_;
  ManualClock clock_;  // does not move: all exports fall into one second
};

TEST_F(ExportModelTest, AServableAnswersAsPredictDoes) {
  Estimator estimator(two_layers, config(), {{"optimizer", "adam"}, {"dropout", 0.5}});
  const Error early = error_of([&] { estimator.export_model(dir(), receiver()); });
  EXPECT_EQ(early.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(early.message(), HasSubstr("could not find a trained model"));
  EXPECT_TRUE(model_versions(dir()).empty());

  estimator.train(shuffled_batches(64, 8), {.max_steps = 20});
  const std::string path = estimator.export_model(dir(), receiver()).value();
  EXPECT_EQ(path, dir() + "/1700000000");
  const Servable model(path);
  EXPECT_EQ(model.global_step(), 20);
  const auto outputs = model.run(kServingDefault, {{"x", some_rows()}});
  const Prediction expected = predicted(estimator);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_TRUE(outputs.at("logits").allclose(expected.at("logits"), 1e-4, 1e-5));
  EXPECT_TRUE(outputs.at("class").equal(expected.at("class")));
  EXPECT_EQ(model.signature(kServingDefault).outputs.at("class").describe(), "int64[-1]");

  // An earlier checkpoint, in the same second.
  const ExportModelOptions earlier{.checkpoint_path = directory_ / "m/model.ckpt-10"};
  EXPECT_EQ(estimator.export_model(dir(), receiver(), earlier), dir() + "/1700000001");
  EXPECT_EQ(Servable(dir() + "/1700000001").global_step(), 10);
  EXPECT_EQ(error_of([&] {
              estimator.export_model(dir(), receiver(), {.checkpoint_path = directory_ / "no"});
            }).kind(),
            ErrorKind::kNotFound);
  // Only versions are in the folder, also after an error.
  EXPECT_EQ(local_file_system().list_directory(dir()).value(),
            (std::vector<std::string>{"1700000000", "1700000001"}));
}

TEST_F(ExportModelTest, RemovesWhatAKilledProcessLeft) {
  Estimator estimator(two_layers, config(), {{"optimizer", "sgd"}});
  estimator.train(shuffled_batches(64, 8), {.max_steps = 1});
  const std::string left = dir() + "/.temp-12-999999999";  // no process has this number
  local_file_system().make_directories(left).value();
  estimator.export_model(dir(), receiver());
  EXPECT_FALSE(local_file_system().exists(left).value());
}

TEST_F(ExportModelTest, OnlyTheChiefAndAnEvaluatorExport) {
  Estimator estimator(two_layers, config(), {{"optimizer", "sgd"}});
  estimator.train(shuffled_batches(64, 8), {.max_steps = 1});
  const auto task = [&](const std::string& type) {
    RunConfig other = config();
    other.environment = Environment(std::map<std::string, std::string>{
        {"TF_CONFIG", R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": ")" +
                          type + R"(", "index": 0}})"}});
    Estimator made(two_layers, other, {{"optimizer", "sgd"}});
    return made.export_model(dir(), receiver());
  };
  EXPECT_EQ(task("worker"), std::nullopt);
  EXPECT_TRUE(model_versions(dir()).empty());
  EXPECT_TRUE(task("chief").has_value());
  EXPECT_TRUE(task("evaluator").has_value());
}

TEST_F(ExportModelTest, TakesMovingAverages) {
  const auto averaged = [](const Features& features, const Labels& labels, Mode mode,
                           ModelContext& context) {
    const Tensor logits = context.model("net", [] { return Dense(2); })(features["x"]);
    if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
    const Tensor loss = testing::loss_of(logits, labels);
    return EstimatorSpec::train(
        loss,
        context.optimizer(optim::exponential_moving_average(optim::sgd({.learning_rate = 0.5})))
            .minimize(loss));
  };
  Estimator estimator(averaged, config());
  estimator.train(shuffled_batches(64, 8), {.max_steps = 10});
  const Servable plain(estimator.export_model(dir(), receiver()).value());
  const Servable mean(estimator.export_model(dir(), receiver(), {.use_ema = true}).value());
  const Servable::Tensors x{{"x", some_rows()}};
  const Tensor a = plain.run(kServingDefault, x).at("logits");
  const Tensor b = mean.run(kServingDefault, x).at("logits");
  EXPECT_FALSE(a.allclose(b, 1e-3, 1e-3));
  EXPECT_TRUE(b.allclose(predicted(estimator, {.use_ema = true}).at("logits"), 1e-4, 1e-5));
}

// A model function with the signatures a test gives it.
Estimator with_signatures(const RunConfig& config,
                          std::function<std::map<std::string, ExportOutput>(const Tensor&)> make) {
  return Estimator(
      [make](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        const Tensor logits = context.model("net", [] { return Dense(2); })(features["x"]);
        if (mode == Mode::kPredict)
          return EstimatorSpec::predict({{"logits", logits}}, make(logits));
        const Tensor loss = testing::loss_of(logits, labels);
        return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
      },
      config);
}

TEST_F(ExportModelTest, OneSignatureIsTheDefaultToo) {
  Estimator estimator = with_signatures(config(), [](const Tensor& logits) {
    return std::map<std::string, ExportOutput>{
        {"best", ClassificationOutput(logits.softmax(-1), {"low", "high"})}};
  });
  estimator.train(shuffled_batches(64, 8), {.max_steps = 1});
  const Servable model(estimator.export_model(dir(), receiver()).value());
  ASSERT_EQ(model.signatures().size(), 2u);
  EXPECT_EQ(model.signature(kServingDefault).classes, model.signature("best").classes);
  EXPECT_EQ(model.signature("best").method, SignatureMethod::kClassify);
}

TEST_F(ExportModelTest, BadSignaturesAreNamed) {
  const auto said = [&](std::function<std::map<std::string, ExportOutput>(const Tensor&)> make) {
    Estimator estimator = with_signatures(config(), std::move(make));
    estimator.train(shuffled_batches(64, 8), {.max_steps = 1});
    const Error error = error_of([&] { estimator.export_model(dir(), receiver()); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  using Outputs = std::map<std::string, ExportOutput>;
  EXPECT_THAT(said([](const Tensor& y) {
                return Outputs{{"a", PredictOutput(y)}, {"b", PredictOutput(y)}};
              }),
              HasSubstr("no \"serving_default\""));
  EXPECT_THAT(said([](const Tensor&) {
                return Outputs{{"a", ExportOutput{.outputs = {{"gone", Tensor()}}}}};
              }),
              HasSubstr("export_outputs[\"a\"]: the tensor \"gone\" is missing"));
  EXPECT_THAT(said([](const Tensor&) {
                return Outputs{{"a", ExportOutput{}}};
              }),
              HasSubstr("export_outputs[\"a\"] has no output"));
  EXPECT_THAT(said([](const Tensor& y) {
                return Outputs{{"a", PredictOutput({{"odd", y.size(0) > 6 ? y + 1 : y * 1}})}};
              }),
              HasSubstr("\"odd\" differs"));
  EXPECT_TRUE(model_versions(dir()).empty());
}

TEST_F(ExportModelTest, AFeatureThatIsNotReceivedIsNamed) {
  Estimator estimator(two_layers, config(), {{"optimizer", "sgd"}});
  estimator.train(shuffled_batches(64, 8), {.max_steps = 1});
  const Error error = error_of([&] {
    estimator.export_model(dir(), raw_serving_input_receiver({{"y", {kFloat32, {kFeatures}}}}));
  });
  EXPECT_THAT(error.message(), HasSubstr("x"));
  EXPECT_EQ(error_of([&] { estimator.export_model(dir(), {}); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { estimator.export_model("", receiver()); }).kind(),
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1
