// The promises of hook.h, kept by a run of the trainer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/hook.h"
#include "muster/train/model_context.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Told = std::vector<std::string>;

const json kNothingGiven = json::object();

// loss = mean((w - x)^2).
EstimatorSpec distance(const Features& features, const Labels&, Mode, ModelContext& context) {
  const Tensor& w = context.variable(
      {.name = "w", .shape = {}, .initializer = [](const Shape& shape, DType dtype, RandomKey) {
         return torch::ones(shape, torch::TensorOptions(dtype));
       }});
  const Tensor loss = (w - features.tensor()).square().mean();
  return EstimatorSpec::train(
      loss, context.optimizer(optim::sgd({.learning_rate = 0.25})).minimize(loss));
}

InputFn counting(int64_t batches) {
  return [=] {
    return Dataset::from_tensor_slices(torch::arange(0, 2 * batches, at::kFloat)).batch(2);
  };
}

TrainerOptions saving_every(int64_t steps, const std::string& model_dir,
                            std::vector<std::shared_ptr<Hook>> hooks) {
  return {.model_dir = model_dir,
          .strategy = distribute::one_device(),
          .params = &kNothingGiven,
          .save_checkpoints_steps = steps,
          .hooks = std::move(hooks)};
}

// Records its calls, and throws or stops where it is asked to.
class Diary : public Hook {
 public:
  explicit Diary(std::string name, Told& told, std::string throws_in = "",
                 std::string stops_in = "")
      : name_(std::move(name)),
        told_(told),
        throws_in_(std::move(throws_in)),
        stops_in_(std::move(stops_in)) {}
  void begin(const RunInfo& info) override {
    control_ = info.control;
    note("begin");
  }
  void before_step(int64_t step) override { note("before " + std::to_string(step)); }
  void after_step(const StepInfo& info) override {
    note("step " + std::to_string(info.global_step));
  }
  void before_save(int64_t step) override { note("saving " + std::to_string(step)); }
  void after_save(int64_t step, const std::string&) override {
    note("saved " + std::to_string(step));
  }
  void end(int64_t step) override { note("end " + std::to_string(step)); }
  void on_error(const Error& error) override { note("error: " + error.message()); }

 private:
  void note(const std::string& what) {
    told_.push_back(name_ + " " + what);
    if (what == stops_in_) control_.request_stop();
    if (what == throws_in_) throw std::runtime_error(name_ + " broke");
  }

  const std::string name_;
  Told& told_;
  const std::string throws_in_, stops_in_;
  RunControl control_;
};

TEST(LifecycleTest, HooksAreCalledInTheDocumentedOrder) {
  TempDirectory directory;
  Told told;
  train(distance, counting(3),
        saving_every(2, directory.path(),
                     {std::make_shared<Diary>("a", told), std::make_shared<Diary>("b", told)}));
  EXPECT_THAT(told, ElementsAre("a begin", "b begin", "a saving 0", "b saving 0", "a saved 0",
                                "b saved 0", "a before 1", "b before 1", "a step 1", "b step 1",
                                "a before 2", "b before 2", "a step 2", "b step 2", "a saving 2",
                                "b saving 2", "a saved 2", "b saved 2", "a before 3", "b before 3",
                                "a step 3", "b step 3", "a before 4", "b before 4", "a saving 3",
                                "b saving 3", "a saved 3", "b saved 3", "a end 3", "b end 3"));
}

TEST(LifecycleTest, ThoseOfTheChiefComeFirstAndThoseOfTheModelLast) {
  TempDirectory directory;
  Told told;
  const ModelFn model = [&](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    EstimatorSpec spec = distance(features, labels, mode, context);
    spec.training_hooks = {std::make_shared<Diary>("model", told)};
    spec.training_chief_hooks = {std::make_shared<Diary>("model_chief", told)};
    return spec;
  };
  TrainerOptions options =
      saving_every(9, directory.path(), {std::make_shared<Diary>("user", told)});
  options.chief_hooks = {std::make_shared<Diary>("report", told)};
  train(model, counting(1), options);
  told.resize(4);
  EXPECT_THAT(told, ElementsAre("model_chief begin", "report begin", "user begin", "model begin"));
}

// The run with three hooks, of which the second throws.
Told told_when_it_throws(const std::string& throws_in) {
  TempDirectory directory;
  Told told;
  EXPECT_THROW(train(distance, counting(2),
                     saving_every(9, directory.path(),
                                  {std::make_shared<Diary>("a", told),
                                   std::make_shared<Diary>("b", told, throws_in),
                                   std::make_shared<Diary>("c", told)})),
               std::runtime_error);
  return told;
}

Told behind(const Told& told, const std::string& line) {
  return {std::ranges::find(told, line) + 1, told.end()};
}

TEST(LifecycleTest, EachThatBeganIsToldOfTheErrorInReverse) {
  const auto broke = [](const char* name) {
    return std::string(name) + " error: std::runtime_error was thrown: b broke";
  };
  EXPECT_THAT(behind(told_when_it_throws("step 1"), "b step 1"),
              ElementsAre(broke("c"), broke("b"), broke("a")));
  EXPECT_THAT(behind(told_when_it_throws("saved 0"), "b saved 0"),
              ElementsAre(broke("c"), broke("b"), broke("a")));
  // A hook that did not begin has nothing to release; a hook that ended has released it.
  EXPECT_THAT(behind(told_when_it_throws("begin"), "b begin"), ElementsAre(broke("a")));
  EXPECT_THAT(behind(told_when_it_throws("end 2"), "b end 2"), ElementsAre(broke("c")));
}

TEST(LifecycleTest, AHookThatFailsInOnErrorHidesNothing) {
  TempDirectory directory;
  Told told;
  const std::string error = "error: std::runtime_error was thrown: b broke";
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(error_of([&] {
                try {
                  train(distance, counting(2),
                        saving_every(9, directory.path(),
                                     {std::make_shared<Diary>("a", told),
                                      std::make_shared<Diary>("b", told, "step 1"),
                                      std::make_shared<Diary>("c", told, error)}));
                } catch (const std::runtime_error& thrown) {
                  throw internal_error(thrown.what());
                }
              }).message(),
              HasSubstr("b broke"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("failed in on_error()"));
  EXPECT_THAT(log, HasSubstr("a hook failed in Diary::after_step() at step 1"));
  EXPECT_EQ(told.back(), "a " + error);
}

TEST(LifecycleTest, AnyCallMayAskToStop) {
  const auto stopped = [](const std::string& stops_in) {
    TempDirectory directory;
    Told told;
    const TrainResult result = train(
        distance, counting(9),
        saving_every(2, directory.path(), {std::make_shared<Diary>("a", told, "", stops_in)}));
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(told.back(), "a end " + std::to_string(result.global_step));
    EXPECT_EQ(CheckpointManager(directory.path()).load_latest()->checkpoint.global_step,
              result.global_step);
    return result.steps;
  };
  EXPECT_EQ(stopped("begin"), 0);
  EXPECT_EQ(stopped("saved 0"), 0);
  EXPECT_EQ(stopped("before 3"), 3);
  EXPECT_EQ(stopped("step 3"), 3);
  EXPECT_EQ(stopped("saved 4"), 4);
}

TEST(LifecycleTest, ALossThatIsNotFiniteIsSeenBeforeHooksAndSaves) {
  TempDirectory directory;
  Told told;
  const ModelFn infinite = [](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    EstimatorSpec spec = distance(features, labels, mode, context);
    if (context.global_step() == 1) spec.loss = spec.loss * INFINITY;
    return spec;
  };
  const Error error = error_of([&] {
    train(infinite, counting(4),
          saving_every(2, directory.path(), {std::make_shared<Diary>("a", told)}));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(behind(told, "a before 2"),
              ElementsAre(::testing::StartsWith("a error: the loss is inf at step 2")));
}

TEST(LifecycleTest, AHookThatIsEmptyIsNamed) {
  const Error error = error_of([] {
    check_hooks({std::make_shared<Hook>(), nullptr}, "TrainOptions.hooks");
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(), "TrainOptions.hooks[1] is empty (nullptr)");
}

}  // namespace
}  // namespace muster::inline v0_1
