#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/formats/event.h"
#include "muster/layers/dense.h"
#include "muster/metrics/metrics.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/evaluator.h"
#include "muster/train/model_context.h"
#include "muster/train/model_steps.h"
#include "muster/train/progress_line.h"
#include "muster/train/report_hooks.h"
#include "muster/train/step_trace.h"
#include "muster/train/stop_signal.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {
namespace {

using distribute::VariableTable;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const json kNoParams = json::object();

VariableSpec scalar(const std::string& name, double value = 0) {
  return {.name = name,
          .shape = {},
          .initializer = [value](const Shape& shape, DType dtype, RandomKey) {
            return torch::full(shape, value, torch::TensorOptions(dtype));
          }};
}

// --- what a model function returns ---------------------------------------------------------------

optim::TrainOp some_op() { return optim::sgd().minimize(torch::zeros({})); }

TEST(EstimatorSpecTest, NamesTheFieldThatIsWrong) {
  const auto with = [](EstimatorSpec spec, auto change) {
    change(spec);
    return spec;
  };
  const Tensor loss = torch::ones({});
  const struct {
    EstimatorSpec spec;
    Mode mode;
    const char* message{};
  } cases[] = {
      {{}, Mode::kTrain, "Missing loss: the model function gave none in mode train"},
      {{}, Mode::kEval, "Missing loss: the model function gave none in mode eval"},
      {{}, Mode::kPredict, "Missing predictions: the model function gave none in mode predict"},
      {EstimatorSpec::train(loss, {}), Mode::kTrain, "Missing train_op"},
      {EstimatorSpec::train(torch::ones({2}), some_op()), Mode::kTrain,
       "Loss must be scalar; the model function gave float32[2] in mode train"},
      {EstimatorSpec::train(torch::ones({}, at::kLong), some_op()), Mode::kTrain,
       "floating type; the model function gave int64[]"},
      {with(EstimatorSpec::eval(loss), [](auto& spec) { spec.loss_weight = -1; }), Mode::kEval,
       "loss_weight is -1 in mode eval"},
      {with(EstimatorSpec::eval(loss),
            [](auto& spec) { spec.loss_weight = std::numeric_limits<double>::infinity(); }),
       Mode::kEval, "loss_weight is inf"},
      {EstimatorSpec::eval(loss, {{"loss", metrics::mean(loss)}}), Mode::kEval,
       "the metric \"loss\" is always there"},
      {EstimatorSpec::eval(loss, {{"global_step", metrics::mean(loss)}}), Mode::kEval,
       "the metric \"global_step\" is always there"},
      {EstimatorSpec::eval(loss, {{"recall", metrics::per_class_recall(loss, loss, 2)},
                                  {"recall/all", metrics::mean(loss)},
                                  {"recall/class_1", metrics::mean(loss)}}),
       Mode::kEval,
       "the metric \"recall/class_1\" has the name of a part of the metric \"recall\", which is "
       "per_class_recall(2)"},
      {EstimatorSpec::predict(torch::ones({})), Mode::kPredict,
       "predictions[\"output\"] is float32[]"},
      {EstimatorSpec::predict(Tensor()), Mode::kPredict, "predictions[\"output\"] is"},
  };
  for (const auto& wrong : cases) {
    EstimatorSpec spec = wrong.spec;
    const Error error = error_of([&] { spec.validate(wrong.mode); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(wrong.message));
  }
}

TEST(EstimatorSpecTest, OneRecordMayServeAllModes) {
  EstimatorSpec spec = EstimatorSpec::train(torch::full({1, 1}, 3.0), some_op());
  spec.predictions = {{"p", torch::zeros({4})}};
  for (Mode mode : {Mode::kTrain, Mode::kEval, Mode::kPredict}) spec.validate(mode);
  EXPECT_EQ(spec.loss.dim(), 0);  // one element is a scalar
  EXPECT_EQ(spec.loss.item<double>(), 3);
}

// --- the context ---------------------------------------------------------------------------------

TEST(ModelContextTest, HandsOutTheSameModelAndVariables) {
  VariableTable variables(1);
  ModelContext context(Mode::kTrain, variables, 1, kNoParams);
  int made = 0;
  const auto make = [&] {
    ++made;
    return Dense(2);
  };
  for (int step = 0; step < 3; ++step) {
    internal::begin_step(context, step, 0);
    EXPECT_EQ(context.global_step(), step);
    context.model("net", make)(torch::ones({4, 3}));
    context.variable(scalar("mine"));
    variables.seal();
  }
  EXPECT_EQ(made, 1);
  EXPECT_THAT(variables.signature(), ElementsAre("net/dense/kernel float32[3, 2]",
                                                 "net/dense/bias float32[2]", "mine float32[]"));
  EXPECT_THAT(error_of([&] { context.model("", make); }).message(), HasSubstr("needs a name"));
  EXPECT_THAT(error_of([&] { context.variable(scalar("late")); }).message(), HasSubstr("late"));
}

Layer plain_layer() { return Dense(2); }
Layer other_plain_layer() { return Dense(3); }

TEST(ModelContextTest, AFunctionThatANameHidesIsRefused) {
  VariableTable variables(1);
  ModelContext context(Mode::kTrain, variables, 1, kNoParams);
  internal::begin_step(context, 0, 0);
  const int64_t units = 2;
  context.model("hidden", [&] { return Dense(units); });
  const Error error = error_of([&] { context.model("hidden", [] { return Dense(10); }); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("the name \"hidden\""));
  EXPECT_THAT(error.hint(), HasSubstr("a different name"));
  // So are functions that are not lambdas.
  context.model("plain", plain_layer);
  EXPECT_THAT(message_of([&] { context.model("plain", other_plain_layer); }), HasSubstr("plain"));
}

// As a loop does that names all of its layers alike.
TEST(ModelContextTest, LayersOfOneNameAreReportedOnce) {
  VariableTable variables(1);
  ModelContext context(Mode::kTrain, variables, 1, kNoParams);
  ::testing::internal::CaptureStderr();
  for (int step = 0; step < 2; ++step) {
    internal::begin_step(context, step, 0);
    context.model("plain", plain_layer);
    for (int layer = 0; layer < 3; ++layer) context.model("head", [] { return Dense(2); });
  }
  log::flush();
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("the model \"head\" more than once"));
  EXPECT_EQ(text.find("more than once"), text.rfind("more than once"));
}

TEST(ModelContextTest, ParametersAreReadByNameAndType) {
  VariableTable variables(1);
  const json params = {{"lr", 0.5},     {"units", 32},          {"wide", true},
                       {"name", "net"}, {"layers", {64, 32.0}}, {"words", {"a", "b"}}};
  const ModelContext context(Mode::kTrain, variables, 1, params);
  EXPECT_EQ(context.param<double>("lr"), 0.5);
  EXPECT_EQ(context.param<double>("units"), 32.0);
  EXPECT_EQ(context.param<int>("units"), 32);
  EXPECT_TRUE(context.param<bool>("wide"));
  EXPECT_EQ(context.param<std::string>("name"), "net");
  EXPECT_THAT(context.param<std::vector<int64_t>>("layers"), ElementsAre(64, 32));
  EXPECT_THAT(context.param<std::vector<std::string>>("words"), ElementsAre("a", "b"));
  EXPECT_EQ(context.param("momentum", 0.9), 0.9);
  EXPECT_EQ(context.param("lr", 0.9), 0.5);
  EXPECT_EQ(context.param("optimizer", "sgd"), "sgd");

  for (const Error& error : {error_of([&] { (void)context.param<double>("learning_rate"); }),
                             error_of([&] { (void)context.params()["learning_rate"]; })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.message(),
              "the Estimator has no parameter 'learning_rate'; it has 'layers', 'lr', 'name', "
              "'units', 'wide', 'words'");
    EXPECT_THAT(error.hint(), HasSubstr("context.param(\"learning_rate\", otherwise)"));
  }
  EXPECT_EQ(error_of([&] { (void)context.param<int>("unit"); }).hint(), "did you mean 'units'?");
}

TEST(ModelContextTest, AParameterOfAnotherTypeIsNamed) {
  VariableTable variables(1);
  const json params = {{"lr", "fast"}, {"units", 2.5}, {"many", 1e10}, {"layers", {64, "x"}}};
  const ModelContext context(Mode::kTrain, variables, 1, params);
  const auto said = [](auto call) { return message_of(call); };
  EXPECT_EQ(said([&] { (void)context.param<double>("lr"); }),
            "the Estimator's parameter 'lr' is \"fast\"; the model function needs a number");
  EXPECT_THAT(said([&] { (void)context.param("lr", 0.5); }), HasSubstr("is \"fast\""));
  EXPECT_THAT(said([&] { (void)context.param<int64_t>("units"); }),
              HasSubstr("is 2.5; the model function needs a whole number"));
  EXPECT_THAT(said([&] { (void)context.param<int>("many"); }), HasSubstr("to 2147483647"));
  EXPECT_EQ(context.param<int64_t>("many"), 10'000'000'000);
  EXPECT_THAT(said([&] { (void)context.param<std::vector<double>>("layers"); }),
              HasSubstr("a list, and in it a number"));
  EXPECT_THAT(said([&] { (void)context.param<bool>("units"); }), HasSubstr("true or false"));
}

TEST(ModelContextTest, AnOptimizerMayChangeItsRateButNotItsKind) {
  VariableTable variables(1);
  ModelContext context(Mode::kTrain, variables, 1, kNoParams);
  context.optimizer(optim::sgd({.learning_rate = 0.1}));
  EXPECT_EQ(context.optimizer(optim::sgd({.learning_rate = 0.2})).rule().learning_rate(), 0.2);
  context.optimizer(optim::adam());
  EXPECT_THAT(error_of([&] { context.optimizer(optim::adam().named("SGD")); }).message(),
              HasSubstr("the optimizer \"SGD\" is Adam, but was SGD before"));
}

TEST(ModelContextTest, RandomKeysDifferByNameStepAndReplica) {
  VariableTable variables(1);
  const auto draw = [&](const char* name, int64_t step, int64_t replica) {
    ModelContext context(Mode::kTrain, variables, 1, kNoParams);
    internal::begin_step(context, step, replica);
    return Random(context.random_key(name)).normal();
  };
  EXPECT_EQ(draw("a", 3, 1), draw("a", 3, 1));
  const std::set<double> all{draw("a", 3, 1), draw("b", 3, 1), draw("a", 4, 1), draw("a", 3, 2)};
  EXPECT_EQ(all.size(), 4u);
}

// --- batches -------------------------------------------------------------------------------------

TEST(BatchTest, AnElementIsFeaturesOrFeaturesAndLabels) {
  const Tensor x = torch::ones({4, 2}), y = torch::zeros({4});
  EXPECT_FALSE(to_batch(Element(x)).labels.defined());
  EXPECT_FALSE(to_batch(Element::dict({{"x", x}})).labels.defined());
  EXPECT_FALSE(to_batch(Element::tuple({x})).labels.defined());
  const Batch both = to_batch(Element::tuple({Element::dict({{"x", x}}), y}));
  EXPECT_TRUE(both.features["x"].equal(x));
  EXPECT_TRUE(both.labels.tensor().equal(y));
  EXPECT_EQ(both.rows(), 4);
  EXPECT_THAT(error_of([&] {
                to_batch(Element::tuple({x, y, y, y}));
              }).what(),
              HasSubstr("(features, labels, weights)"));
  EXPECT_THAT(error_of([&] {
                to_batch(Element::tuple({x, torch::ones({})}));
              }).what(),
              HasSubstr("single examples: (float32[4, 2], float32[])"));
}

TEST(ElementSpecTest, ABatchOfZeroRowsHasTheForm) {
  const Element batch = Element::tuple(
      {Element::dict({{"image", torch::ones({4, 2, 3})},
                      {"name", Value(Strings(std::vector<std::string>{"a", "b", "c", "d"}))},
                      {"nested", Element::dict({{"id", torch::arange(4)}})}}),
       torch::ones({4}, at::kBool)});
  const Element empty = zero_rows(encode_batch_spec(batch));
  EXPECT_EQ(empty.structure(), batch.structure());
  EXPECT_EQ(empty.describe(),
            "({image: float32[0, 2, 3], name: string[0], nested: {id: int64[0]}}, bool[0])");
  EXPECT_EQ(encode_batch_spec(empty), encode_batch_spec(batch));
  EXPECT_EQ(error_of([] { zero_rows("{}"); }).kind(), ErrorKind::kInternal);
  EXPECT_EQ(error_of([] { zero_rows("no json"); }).kind(), ErrorKind::kInternal);
}

// --- numbers that are none -----------------------------------------------------------------------

TEST(FiniteTest, FindsTheFirstBadElement) {
  Tensor tensor = torch::ones({3, 2});
  EXPECT_EQ(find_non_finite("t", tensor), std::nullopt);
  tensor[1][1] = std::numeric_limits<float>::infinity();
  tensor[2][0] = std::nan("");
  EXPECT_EQ(find_non_finite("t", tensor), "t holds inf (element 3 of float32[3, 2])");
  tensor[0][1] = -std::numeric_limits<float>::infinity();  // with the other one the sum is NaN
  EXPECT_EQ(find_non_finite("t", tensor), "t holds -inf (element 1 of float32[3, 2])");
  EXPECT_EQ(find_non_finite("t", torch::arange(3)), std::nullopt);
  EXPECT_EQ(find_non_finite("t", Tensor()), std::nullopt);
  // A sum beyond the largest number is no reason to complain.
  EXPECT_EQ(find_non_finite("t", torch::full({2}, 1.5e308, at::kDouble)), std::nullopt);
}

TEST(FiniteTest, ExplainsWhereItCameFrom) {
  const double nan = std::nan("");
  VariableTable good(1), bad(1);
  good.get_or_create(scalar("w", 1));
  bad.get_or_create(scalar("w", nan));
  Tensor y = torch::ones({3, 2});
  y[2][1] = nan;
  const Features features(Element::dict({{"x", torch::ones({3})}, {"y", y}}));
  const Features fine(Element::dict({{"x", torch::ones({2})}}));
  const Labels labels{Element(torch::full({2}, nan))};
  const Tensor loss = torch::full({}, nan);
  const NonFiniteCause feature = explain_non_finite(features, labels, bad, loss);
  EXPECT_EQ(feature.text, "the batch's feature \"y\" holds nan in row 2 of float32[3, 2]");
  const NonFiniteCause label = explain_non_finite(fine, labels, bad, loss);
  EXPECT_EQ(label.text, "the batch's label holds nan in row 0 of float32[2]");
  // No learning rate mends data.
  for (const auto& cause : {feature, label}) {
    EXPECT_EQ(cause.hint, "mend the data, or leave such rows out in the input function");
  }
  const NonFiniteCause variable = explain_non_finite(fine, Labels(), bad, loss);
  EXPECT_THAT(variable.text, HasSubstr("variable w holds nan"));
  EXPECT_THAT(variable.hint, HasSubstr("lower the learning rate"));
  EXPECT_THAT(explain_non_finite(fine, Labels(), good, loss).text,
              HasSubstr("the loss holds nan (element 0 of float32[]); inputs and variables"));
  EXPECT_THAT(explain_non_finite(fine, Labels(), good, torch::ones({})).text,
              HasSubstr("from another replica"));
}

// --- a model of one weight: loss = mean((w - x)^2) -----------------------------------------------

EstimatorSpec one_weight(const Features& features, const Labels&, Mode mode,
                         ModelContext& context) {
  const Tensor& w = context.variable(scalar("w", 1));
  const Tensor& x = features.tensor();
  if (mode == Mode::kPredict) return EstimatorSpec::predict(x * w);
  const Tensor loss = (w - x).square().mean();
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss, {{"x", metrics::mean(x)}});
  return EstimatorSpec::train(
      loss, context.optimizer(optim::sgd({.learning_rate = 0.25})).minimize(loss));
}

Dataset numbers(int64_t n) { return Dataset::from_tensor_slices(torch::arange(0, n, at::kFloat)); }

Checkpoint checkpoint_of(double w, int64_t step) {
  Checkpoint checkpoint{.global_step = step};
  checkpoint.tensors["w"] = torch::full({}, w);
  checkpoint.tensors["SGD/iterations"] = torch::full({}, step, at::kLong);
  return checkpoint;
}

TEST(EvaluatorTest, MergesMetricsByWeightAndLossesByBatch) {
  ModelRunner runner(one_weight, Mode::kEval, 0, kNoParams);
  const auto session = distribute::one_device()->start({});
  const InputFn input = [] { return numbers(5).batch(2); };
  const EvalResult result = evaluate(runner, *session, {.input_fn = input});
  EXPECT_DOUBLE_EQ(result.at("x"), 2);  // (0 + 1 + 2 + 3 + 4) / 5
  EXPECT_DOUBLE_EQ(result.at("loss"), (0.5 + 2.5 + 9) / 3);
  EXPECT_EQ(result.at("global_step"), 0);
  std::vector<int64_t> batches;
  const EvalResult two =
      evaluate(runner, *session, {.input_fn = input, .steps = 2, .after_batch = [&](int64_t batch) {
                                    batches.push_back(batch);
                                  }});
  EXPECT_DOUBLE_EQ(two.at("x"), 1.5);
  EXPECT_THAT(batches, ElementsAre(1, 2));
}

TEST(EvaluatorTest, AnotherCheckpointReplacesTheValues) {
  ModelRunner runner(one_weight, Mode::kPredict, 0, kNoParams);
  const Batch batch = to_batch(Element(torch::ones({1})));
  for (double w : {3.0, 5.0}) {
    const Checkpoint checkpoint = checkpoint_of(w, static_cast<int64_t>(w));
    runner.load(&checkpoint, "c");
    EXPECT_EQ(runner.run(batch, 0).predictions.at("output").item<double>(), w);
    EXPECT_EQ(runner.global_step(), static_cast<int64_t>(w));
    EXPECT_EQ(runner.run(batch, 1).predictions.at("output").item<double>(), w);
  }
  EXPECT_EQ(error_of([&] { runner.load(nullptr, ""); }).kind(), ErrorKind::kInvalidArgument);
  Checkpoint without{.global_step = 9};
  EXPECT_THAT(error_of([&] { runner.load(&without, "old"); }).what(), HasSubstr("w"));
}

TEST(EvaluatorTest, NoDataAndAStopAreErrors) {
  ModelRunner runner(one_weight, Mode::kEval, 0, kNoParams);
  const auto session = distribute::one_device()->start({});
  const InputFn none = [] { return numbers(5).take(0).batch(2); };
  EXPECT_THAT(error_of([&] { evaluate(runner, *session, {.input_fn = none}); }).what(),
              HasSubstr("gave no data"));
  const InputFn some = [] { return numbers(5).batch(2); };
  EXPECT_EQ(error_of([&] {
              evaluate(runner, *session, {.input_fn = some, .interrupted = [] { return true; }});
            }).kind(),
            ErrorKind::kCancelled);
}

// --- the loop ------------------------------------------------------------------------------------

TrainerOptions options_of(const std::string& model_dir) {
  return {.model_dir = model_dir,
          .strategy = distribute::one_device(),
          .params = &kNoParams,
          .save_checkpoints_steps = 2};
}

Checkpoint latest(const std::string& model_dir) {
  return CheckpointManager(model_dir).load_latest()->checkpoint;
}

TEST(TrainerTest, UpdatesByTheFormula) {
  TempDirectory directory;
  const TrainResult result = train(
      one_weight, [] { return numbers(6).batch(2); }, options_of(directory.path()));
  EXPECT_EQ(result.steps, 3);
  EXPECT_TRUE(result.end_of_input);
  double w = 1;
  for (double mean : {0.5, 2.5, 4.5}) w -= 0.25 * 2 * (w - mean);
  EXPECT_FLOAT_EQ(latest(directory.path()).tensors.at("w").item<float>(), static_cast<float>(w));
}

// A run that was saved exactly where an epoch ends continues with the next one; a run whose input
// is used up makes no step and keeps its checkpoint.
TEST(TrainerTest, ResumesAtTheEndOfAnEpochAndOfTheInput) {
  TempDirectory directory;
  std::vector<float> seen;
  const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    if (torch::GradMode::is_enabled()) seen.push_back(features.tensor()[0].item<float>());
    return one_weight(features, labels, mode, context);
  };
  const InputFn input = [] { return numbers(4).batch(2).repeat(2); };
  for (const auto& [max_steps, steps, global_step] :
       {std::tuple{2, 2, 2}, std::tuple{4, 2, 4}, std::tuple{9, 0, 4}, std::tuple{3, 0, 4}}) {
    TrainerOptions options = options_of(directory.path());
    options.max_steps = max_steps;
    const TrainResult result = train(recording, input, options);
    EXPECT_EQ(result.steps, steps) << max_steps;
    EXPECT_EQ(result.global_step, global_step) << max_steps;
    EXPECT_EQ(result.end_of_input, max_steps == 9) << max_steps;
    EXPECT_EQ(latest(directory.path()).global_step, global_step) << max_steps;
  }
  EXPECT_THAT(seen, ElementsAre(0, 2, 0, 2));
}

TEST(TrainerTest, SingleExamplesAreRefused) {
  TempDirectory directory;
  EXPECT_THAT(error_of([&] {
                train(
                    one_weight, [] { return numbers(6); }, options_of(directory.path()));
              }).what(),
              HasSubstr("global_batch(n)"));
}

TEST(TrainerTest, AVariableThatIsNoNumberIsNotSaved) {
  TempDirectory directory;
  const ModelFn exploding = [](const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
    EstimatorSpec spec = one_weight(features, labels, mode, context);
    if (context.global_step() == 3) {
      spec.train_op.updates.push_back(
          [w = context.variable(scalar("w"))] { Tensor(w.detach()).fill_(std::nan("")); });
    }
    return spec;
  };
  const Error error = error_of([&] {
    train(
        exploding, [] { return numbers(40).batch(2); }, options_of(directory.path()));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(error.message(),
            "after step 4 the variable w holds nan (element 0 of float32[]); nothing was saved");
  EXPECT_EQ(latest(directory.path()).global_step, 2);
}

// An exception of a model function or hook reaches the caller unchanged.
TEST(TrainerTest, ForeignExceptionsPass) {
  TempDirectory directory;
  const auto throwing = [&](auto what) {
    const ModelFn model = [&, what](const Features& features, const Labels& labels, Mode mode,
                                    ModelContext& context) {
      if (context.global_step() == 1) throw what;
      return one_weight(features, labels, mode, context);
    };
    train(
        model, [] { return numbers(6).batch(2); }, options_of(directory / typeid(what).name()));
  };
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(throwing(std::runtime_error("mine")), std::runtime_error);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("the model function failed at step 2 (mode train)\n"),
                    Not(HasSubstr("mine"))));
  EXPECT_THROW(throwing(7), int);
  class Bad : public Hook {
    void after_save(int64_t, const std::string&) override { throw std::logic_error("hook"); }
  };
  TrainerOptions options = options_of(directory / "hook");
  options.chief_hooks = {std::make_shared<Bad>()};
  EXPECT_THROW(train(
                   one_weight, [] { return numbers(6).batch(2); }, options),
               std::logic_error);
}

}  // namespace
}  // namespace muster::inline v0_1
