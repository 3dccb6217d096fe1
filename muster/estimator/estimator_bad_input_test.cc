#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::two_layers;

TEST(BadInputTest, AModelFunctionIsToldWhatItMultiplied) {
  TempDirectory directory;
  const ModelFn wrong = [](const Features& features, const Labels& labels, Mode mode,
                           ModelContext& context) {
    (void)context.variable({.name = "wide",
                            .shape = {7, 2},
                            .initializer = [](const Shape& shape, DType dtype, RandomKey) {
                              return torch::zeros(shape, torch::TensorOptions(dtype));
                            }});
    (void)torch::matmul(features["x"], context.variables().find("wide")->value());
    return two_layers(features, labels, mode, context);
  };
  const auto train = [&](const ModelFn& model, const InputFn& data) {
    return error_of(
        [&] { Estimator(model, quiet_config(directory / "m")).train(data, {.max_steps = 1}); });
  };
  EXPECT_THAT(train(wrong, shuffled_batches(8, 8)).hint(),
              HasSubstr("its variables are wide float32[7, 2]"));
  const InputFn unlabelled = [] {
    return examples(8).map([](const Element& example) { return example.part(0); }).batch(8);
  };
  const Error error = train(two_layers, unlabelled);
  EXPECT_THAT(error.message(), HasSubstr("there are no labels; while the model was built"));
  EXPECT_THAT(error.hint(), HasSubstr("Element::tuple({features, labels})"));
  EXPECT_THAT(error.hint(), HasSubstr("return EstimatorSpec::predict(...) before"));
}

TEST(BadInputTest, ANonFiniteLossStopsBeforeSaving) {
  TempDirectory directory;
  int64_t calls = 0;
  const ModelFn poisoned = [&](const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    if (mode == Mode::kTrain && ++calls > 15) features["x"][0][3] = std::nan("");
    if (calls > 15) return two_layers(features, labels, mode, context);
    return spec;
  };
  Estimator estimator(poisoned, quiet_config(directory / "m"));
  const Error error =
      error_of([&] { estimator.train(shuffled_batches(64, 8), {.max_steps = 100}); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(error.message(), HasSubstr("at step 15"));
  EXPECT_THAT(error.message(), HasSubstr("the batch's feature \"x\" holds nan in row 0"));
  EXPECT_THAT(error.hint(), HasSubstr("mend the data"));
  EXPECT_EQ(latest(directory / "m").global_step, 10);
}

TEST(BadInputTest, AVariableCreatedLateIsNamed) {
  TempDirectory directory;
  const ModelFn late = [](const Features& features, const Labels& labels, Mode mode,
                          ModelContext& context) {
    if (context.global_step() == 3) context.model("late", [] { return Dense(4); })(features["x"]);
    return two_layers(features, labels, mode, context);
  };
  Estimator estimator(late, quiet_config(directory / "m"));
  const Error error =
      error_of([&] { estimator.train(shuffled_batches(64, 8), {.max_steps = 10}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("late/dense/kernel float32[10, 4]"));
}

TEST(BadInputTest, AnotherModelsCheckpointIsListed) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(64, 8), {.max_steps = 3});
  const ModelFn other = [](const Features& features, const Labels& labels, Mode mode,
                           ModelContext& context) {
    auto model = context.model("net", [] { return Sequential({Dense(8), Dense(2), Dense(2)}); });
    Tensor loss = losses::sparse_categorical_crossentropy(labels, model(features["x"]),
                                                          {.from_logits = true});
    if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
    return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
  };
  Estimator estimator(other, quiet_config(directory / "m"));
  for (const Error& error :
       {error_of([&] { estimator.train(shuffled_batches(64, 8), {.max_steps = 5}); }),
        error_of([&] { estimator.evaluate(shuffled_batches(64, 8, 1)); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("net/dense_2/kernel"));  // missing
    EXPECT_THAT(error.what(), HasSubstr("float32[10, 16]"));     // reshaped
    EXPECT_THAT(error.what(), HasSubstr("model.ckpt-3"));
  }
}

TEST(BadInputTest, AFullDiskKeepsTheOldCheckpoint) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(64, 8), {.max_steps = 10});
  FaultFileSystem full(local_file_system(), {.no_space_from = 12});
  RunConfig config = quiet_config(directory / "m");
  config.fs = &full;
  Estimator estimator(two_layers, config);
  const Error error =
      error_of([&] { estimator.train(shuffled_batches(64, 8), {.max_steps = 200}); });
  EXPECT_EQ(exit_code(error.kind()), 2) << error.what();
  const Checkpoint good = latest(directory / "m");
  EXPECT_GE(good.global_step, 10);
}

TEST(BadInputTest, AnUnwritableModelDirIsSaidBeforeTraining) {
  TempDirectory directory;
  { std::ofstream(directory / "file") << "x"; }
  int64_t calls = 0;
  const ModelFn counting = [&](const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
    ++calls;
    return two_layers(features, labels, mode, context);
  };
  Estimator estimator(counting, quiet_config(directory / "file/m"));
  const Error error = error_of([&] { estimator.train(shuffled_batches(64, 8), {.max_steps = 5}); });
  EXPECT_THAT(error.what(), HasSubstr("file/m"));
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace muster::inline v0_1
