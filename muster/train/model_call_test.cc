#include "muster/train/model_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/evaluator.h"
#include "muster/train/model_context.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// The first batch is given to the model function twice: to make its variables, and to compute.
class ChangedInPlace : public ::testing::Test {
 protected:
  EstimatorSpec doubled(const Features& features, const Labels&, Mode mode, ModelContext& context) {
    Tensor x = features.tensor();
    x.mul_(2);
    sums_.push_back(x.sum().item<double>());
    const Tensor& w = context.variable(
        {.name = "w", .shape = {}, .initializer = [](const Shape& shape, DType dtype, RandomKey) {
           return torch::ones(shape, torch::TensorOptions(dtype));
         }});
    if (mode == Mode::kPredict) return EstimatorSpec::predict({{"output", w * x}});
    const Tensor loss = (w * x).mean();
    if (mode == Mode::kEval) return EstimatorSpec::eval(loss, {});
    return EstimatorSpec::train(loss, context.optimizer(optim::sgd({})).minimize(loss));
  }
  // The same batch, again and again.
  static Dataset ones() { return Dataset::from_tensor_slices(torch::ones({4})).repeat(3).batch(4); }

  const json no_params_ = json::object();
  std::vector<double> sums_;
  const ModelFn model_ = [this](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    return doubled(features, labels, mode, context);
  };
};

TEST_F(ChangedInPlace, ABatchOfTrainingIsChangedOnce) {
  const TempDirectory directory;
  train(model_, ones,
        {.model_dir = directory.path(),
         .strategy = distribute::one_device(),
         .params = &no_params_,
         .save_checkpoints_steps = 100});
  EXPECT_THAT(sums_, SizeIs(4));
  EXPECT_THAT(sums_, Each(8.0));
}

TEST_F(ChangedInPlace, ABatchOfAnEvaluationIsChangedOnce) {
  ModelRunner runner(model_, Mode::kEval, 0, no_params_);
  const auto session = distribute::one_device()->start({});
  evaluate(runner, *session, {.input_fn = ones});
  EXPECT_THAT(sums_, SizeIs(4));
  EXPECT_THAT(sums_, Each(8.0));
}

// Endless data is reported at once, if nothing else ends the evaluation.
TEST_F(ChangedInPlace, AnEvaluationWithoutAnEndIsReported) {
  const auto endless = [] {
    return Dataset::from_tensor_slices(torch::ones({4})).repeat().batch(4);
  };
  const auto said = [&](std::optional<int64_t> steps) {
    ModelRunner runner(model_, Mode::kEval, 0, no_params_);
    const auto session = distribute::one_device()->start({});
    int asked = 0;
    ::testing::internal::CaptureStderr();
    try {
      evaluate(runner, *session,
               {.input_fn = endless, .steps = steps, .interrupted = [&] { return ++asked > 3; }});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said(std::nullopt),
              AllOf(HasSubstr("the evaluation will not end"), HasSubstr("repeat"),
                    HasSubstr("set steps of EvaluateOptions or EvalSpec")));
  EXPECT_THAT(said(2), Not(HasSubstr("will not end")));
}

TEST_F(ChangedInPlace, ABatchOfAPredictionIsChangedOnce) {
  ModelRunner runner(model_, Mode::kPredict, 0, no_params_);
  const Batch batch = to_batch(Element(torch::ones({4})));
  runner.run(batch, 0);
  EXPECT_THAT(sums_, SizeIs(2));
  EXPECT_THAT(sums_, Each(8.0));
}

}  // namespace
}  // namespace muster::inline v0_1
