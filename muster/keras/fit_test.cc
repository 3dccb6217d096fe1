// What fit() promises: the numbers of an Estimator, of any number of replicas, and of a run that
// was stopped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/internal/tally.h"
#include "muster/keras/model_to_estimator.h"
#include "muster/keras/testing/test_models.h"
#include "muster/layers/batch_normalization.h"

namespace muster::inline v0_1::keras {
namespace {

using ::testing::AllOf;
using testing::alone;
using testing::compiled;
using testing::difference;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::rows_of;
using testing::two_layers;
using ::testing::UnorderedElementsAre;
using testing::weights_of;

TEST(FitTest, LearnsAndTellsOfItsEpochs) {
  Model model = compiled();
  const History history = model.fit(rows_of(200).shuffle(200).batch(20),
                                    {.epochs = 12, .validation_data = rows_of(60, 500).batch(25)});
  EXPECT_EQ(history.epoch.size(), 12u);
  EXPECT_EQ(model.step(), 120);
  EXPECT_LT(history["loss"].back(), 0.5 * history["loss"].front());
  EXPECT_GT(history["val_accuracy"].back(), 0.9);
  const Logs result = model.evaluate(rows_of(60, 500).batch(25));
  EXPECT_THAT(result, UnorderedElementsAre(Pair("loss", history["val_loss"].back()),
                                           Pair("accuracy", history["val_accuracy"].back())));
  // Of the same examples in other batches, and by hand.
  const Logs others = model.evaluate(rows_of(60, 500).batch(7));
  EXPECT_NEAR(others.at("loss"), result.at("loss"), 1e-6);
  EXPECT_EQ(others.at("accuracy"), result.at("accuracy"));
  const testing::Points some = testing::points(60, 500);
  const Tensor logits = model.predict(some.x);
  EXPECT_EQ(logits.argmax(1).eq(some.y).to(kFloat32).mean().item<float>(),
            static_cast<float>(result.at("accuracy")));
  EXPECT_NEAR(at::cross_entropy_loss(logits, some.y).item<double>(), result.at("loss"), 1e-6);
}

// A first epoch's loss is the mean over its examples of what each step saw.
TEST(FitTest, TheLossOfAnEpochIsThatOfItsExamples) {
  Model model = compiled(nullptr, "sgd");
  const testing::Points some = testing::points(10);
  struct Losses : Callback {
    std::vector<std::pair<double, int64_t>> seen;
    void on_train_batch_end(const BatchInfo& info) override {
      seen.emplace_back(info.loss, info.rows);
      last = info.logs().at("loss");
    }
    double last = 0;
  };
  const auto losses = std::make_shared<Losses>();
  const History history = model.fit(rows_of(10).batch(4), {.callbacks = {losses}});
  ASSERT_EQ(losses->seen.size(), 3u);
  EXPECT_EQ(losses->seen[2].second, 2);
  double sum = 0;
  for (const auto& [loss, rows] : losses->seen) sum += loss * static_cast<double>(rows);
  EXPECT_NEAR(history["loss"][0], sum / 10, 1e-12);
  EXPECT_EQ(losses->last, history["loss"][0]);
}

class FitLawTest : public ::testing::TestWithParam<const char*> {};

TEST_P(FitLawTest, FitIsTheEstimatorToTheSameBits) {
  constexpr int64_t epochs = 3;
  for (const Dataset& data : {rows_of(70).batch(16), rows_of(70).shuffle(70).batch(16)}) {
    Model trained = compiled(nullptr, GetParam());
    trained.fit(data, {.epochs = epochs});
    Model described = compiled(nullptr, GetParam());
    const TempDirectory directory;
    Estimator estimator = model_to_estimator(
        described, {.model_dir = directory.path(), .environment = Environment()});
    estimator.train([&] { return data.repeat(epochs); });
    for (const auto& [name, value] : trained.get_weights())
      EXPECT_TRUE(estimator.get_variable_value(name).equal(value)) << name;
    EXPECT_NEAR(estimator.evaluate([&] { return data; }).at("accuracy"),
                trained.evaluate(data).at("accuracy"), 1e-12);
  }
}

TEST_P(FitLawTest, ReplicasComputeWhatOneComputes) {
  const auto run = [&](const distribute::StrategyPtr& strategy) {
    Model model = compiled(strategy, GetParam());
    const History history = model.fit(rows_of(53).shuffle(53).batch(12),
                                      {.epochs = 3, .validation_data = rows_of(31, 99).batch(8)});
    return std::pair(weights_of(model), history.history);
  };
  const auto [weights, history] = run(distribute::one_device());
  for (const int replicas : {2, 3}) {
    const auto strategy = distribute::mirrored({.replicas = replicas});
    const auto [others, told] = run(strategy);
    EXPECT_LT(difference(weights, others), 1e-5) << replicas;
    for (const auto& [name, values] : history) {
      for (size_t e = 0; e < values.size(); ++e)
        EXPECT_NEAR(told.at(name)[e], values[e], 1e-5) << name << " of epoch " << e;
    }
  }
}

struct Killed : Callback {
  explicit Killed(int64_t step) : step(step) {}
  void on_train_batch_end(const BatchInfo&) override {
    if (model().step() == step) throw std::runtime_error("killed");
  }
  const int64_t step;
};

// Killed between two backups, at one, and at the end of an epoch.
TEST_P(FitLawTest, ARunThatWasKilledGoesOnWithTheSameBits) {
  const Dataset data = rows_of(53).shuffle(53).batch(12);
  const auto options = [&](const std::string& directory, std::optional<int64_t> save_freq) {
    return FitOptions{.epochs = 4,
                      .validation_data = rows_of(20, 99).batch(8),
                      .callbacks = {std::make_shared<BackupAndRestore>(
                          directory, BackupAndRestoreOptions{.save_freq = save_freq})}};
  };
  Model whole = compiled(nullptr, GetParam());
  const TempDirectory folder;
  const History expected = whole.fit(data, options(folder / "whole", 2));
  EXPECT_FALSE(local_file_system().exists(folder / "whole").value());
  for (const std::optional<int64_t> save_freq : {std::optional<int64_t>(2), {}}) {
    for (const int64_t step : {1, 4, 5, 10, 13}) {
      const std::string directory = folder / "killed";
      {
        Model model = compiled(nullptr, GetParam());
        FitOptions killed = options(directory, save_freq);
        killed.callbacks.push_back(std::make_shared<Killed>(step));
        EXPECT_THROW(model.fit(data, killed), std::exception);
      }
      Model model = compiled(nullptr, GetParam());
      const History history = model.fit(data, options(directory, save_freq));
      EXPECT_EQ(difference(weights_of(model), weights_of(whole)), 0) << step;
      EXPECT_EQ(history.epoch, expected.epoch) << step;
      for (const auto& [name, values] : expected.history)
        EXPECT_THAT(history[name], ::testing::Pointwise(DoubleNear(1e-12), values))
            << name << " after " << step;
      EXPECT_FALSE(local_file_system().exists(directory).value());
    }
  }
}

// What is left of a run of three epochs, five steps each, that was killed after `step`.
void leave_backup(const std::string& directory, int64_t step, std::optional<int64_t> save_freq) {
  Model model = compiled();
  const auto backups = std::make_shared<BackupAndRestore>(
      directory, BackupAndRestoreOptions{.save_freq = save_freq});
  EXPECT_THROW(model.fit(rows_of(50).batch(10),
                         {.epochs = 3, .callbacks = {backups, std::make_shared<Killed>(step)}}),
               std::exception);
}

TEST(FitTest, ABackupBehindTheLastEpochLeavesNothingToTrain) {
  const TempDirectory folder;
  Model expected = compiled();
  expected.fit(rows_of(50).batch(10), {.epochs = 2});
  for (const int64_t epochs : {2, 1}) {
    const std::string directory = folder / "backup";
    leave_backup(directory, 11, {});
    Model model = compiled();
    ::testing::internal::CaptureStderr();
    const History history =
        model.fit(rows_of(50).batch(10),
                  {.epochs = epochs, .callbacks = {std::make_shared<BackupAndRestore>(directory)}});
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr(fmt::format(
                    "fit has nothing to train: {} is a backup after epoch 2, epochs is {}",
                    directory, epochs)));
    EXPECT_THAT(history.epoch, ElementsAre(0, 1));
    EXPECT_EQ(model.step(), 10);
    // Nobody told this model what it is called on, so it has its weights from the first call on.
    const Tensor x = testing::points(20).x;
    EXPECT_TRUE(model.predict(x).equal(expected.predict(x)));
    EXPECT_EQ(difference(weights_of(model), weights_of(expected)), 0);
    EXPECT_FALSE(local_file_system().exists(directory).value());
  }
}

TEST(FitTest, ABackupInALaterEpochIsRefused) {
  const TempDirectory folder;
  const std::string directory = folder / "backup";
  leave_backup(directory, 13, 2);
  Model model = compiled();
  EXPECT_THAT(error_of([&] {
                return model.fit(
                    rows_of(50).batch(10),
                    {.epochs = 2, .callbacks = {std::make_shared<BackupAndRestore>(directory)}});
              }).what(),
              HasSubstr("is in epoch 3, but epochs is 2"));
  EXPECT_TRUE(local_file_system().exists(directory).value()) << "it is not lost";
  // A continued run counts the steps that were made before.
  Model other = compiled();
  ::testing::internal::CaptureStderr();
  other.fit(rows_of(50).batch(10),
            {.epochs = 3, .callbacks = {std::make_shared<BackupAndRestore>(directory)}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("epoch 3/3  5 steps"));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, FitLawTest, ::testing::Values("sgd", "adam"));

TEST(FitTest, StepsOfAnEpochGoOnInTheData) {
  const Dataset data = rows_of(60).batch(10).repeat();
  Model parts = compiled(), one = compiled();
  const History history = parts.fit(data, {.epochs = 3, .steps_per_epoch = 4});
  EXPECT_EQ(history.epoch.size(), 3u);
  one.fit(data, {.steps_per_epoch = 12});
  EXPECT_EQ(difference(weights_of(parts), weights_of(one)), 0);
}

TEST(FitTest, DataThatEndsEarlyEndsTheRunWithALine) {
  Model model = compiled(distribute::mirrored({.replicas = 2}));
  ::testing::internal::CaptureStderr();
  const History history = model.fit(rows_of(30).batch(10), {.epochs = 3, .steps_per_epoch = 2});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the data ended at step 1 of 2 of epoch 2"));
  EXPECT_THAT(history.epoch, ElementsAre(0, 1));
  EXPECT_EQ(model.step(), 3);
}

TEST(FitTest, WeightsOfClassesAndExamplesAreMultiplied) {
  const testing::Points some = testing::points(24);
  const Tensor weights = torch::linspace(0.1, 2, 24);
  const Tensor by_class = torch::where(some.y == 1, 3.0, 0.5).to(kFloat32);
  Model a = compiled(nullptr, "sgd"), b = compiled(nullptr, "sgd");
  a.fit(some.x, some.y,
        {.epochs = 2,
         .batch_size = 24,
         .shuffle = false,
         .sample_weight = weights,
         .class_weight = {0.5, 3}});
  b.fit(Dataset::from_tensor_slices(Element::tuple({some.x, some.y, weights * by_class})).batch(24),
        {.epochs = 2});
  EXPECT_LT(difference(weights_of(a), weights_of(b)), 1e-6);
  Model plain = compiled(nullptr, "sgd");
  plain.fit(some.x, some.y, {.epochs = 2, .batch_size = 24, .shuffle = false});
  EXPECT_GT(difference(weights_of(a), weights_of(plain)), 1e-3);
}

TEST(FitTest, OptionsOfTensorsAreRefusedBesideADataSet) {
  Model model = compiled();
  const Dataset data = rows_of(8).batch(4);
  EXPECT_THAT(message_of([&] { model.fit(data, {.epochs = 2, .batch_size = 4}); }),
              HasSubstr("batch_size is given with a data set"));
  EXPECT_THAT(message_of([&] { model.fit(data, {.validation_split = 0.5}); }),
              HasSubstr("validation_split is given with a data set"));
}

TEST(FitTest, ASplitIsOfTheLastExamples) {
  const testing::Points some = testing::points(40);
  Model a = compiled(), b = compiled();
  FitOptions options;
  options.batch_size = 8;
  options.shuffle = false;
  options.validation_split = 0.25;
  const History split = a.fit(some.x, some.y, options);
  const History told = b.fit(rows_of(30).batch(8), {.validation_data = rows_of(10, 30).batch(8)});
  EXPECT_NEAR(split["val_loss"][0], told["val_loss"][0], 1e-6);
  EXPECT_NEAR(split["loss"][0], told["loss"][0], 1e-6);
}

TEST(FitTest, BatchesOfOneUpdateAreOneBatch) {
  const Dataset data = rows_of(50);
  Model whole = compiled(nullptr, "sgd");
  const History expected = whole.fit(data.batch(20), {.epochs = 2});
  Model model(two_layers(), alone());
  CompileOptions options = testing::settings("sgd");
  options.accumulate_steps = 2;
  model.compile(options);
  const History history = model.fit(data.batch(10), {.epochs = 2});
  EXPECT_EQ(model.step(), 6);
  EXPECT_LT(difference(weights_of(model), weights_of(whole)), 1e-6);
  EXPECT_NEAR(history["loss"][1], expected["loss"][1], 1e-6);
}

TEST(FitTest, FrozenLayersStayAndTrainAgainLater) {
  Model model(Sequential({Dense(8, {.activation = activations::tanh, .name = "body"}),
                          BatchNormalization({.name = "norm"}), Dense(2, {.name = "head"})}),
              alone());
  model.compile(testing::settings());
  model.fit(rows_of(40).batch(10));
  const auto before = weights_of(model);
  model.freeze({"body", "norm"});
  EXPECT_THAT(model.trainable_weights(), ElementsAre("head/kernel", "head/bias"));
  model.fit(rows_of(40).batch(10));
  auto after = weights_of(model);
  for (const char* same : {"body/kernel", "body/bias", "norm/gamma", "norm/moving_mean"})
    EXPECT_TRUE(after.at(same).equal(before.at(same))) << same;
  EXPECT_FALSE(after.at("head/kernel").equal(before.at("head/kernel")));
  model.freeze({});
  model.fit(rows_of(40).batch(10));
  EXPECT_FALSE(weights_of(model).at("body/kernel").equal(after.at("body/kernel")));
  EXPECT_FALSE(weights_of(model).at("norm/moving_mean").equal(after.at("norm/moving_mean")));
  EXPECT_THAT(message_of([&] { model.freeze({"boddy"}); }), HasSubstr("boddy"));
}

TEST(FitTest, AFrozenLayerThatIsNotThereIsToldAtTheFirstStepOfAModelWithoutWeights) {
  Model model(Sequential({Dense(8, {.name = "body"}), Dense(2, {.name = "head"})}), alone());
  model.compile(testing::settings());
  model.freeze({"boddy"});
  EXPECT_THAT(message_of([&] { model.fit(rows_of(40).batch(10)); }),
              AllOf(HasSubstr("boddy"), HasSubstr("body")));
}

TEST(FitTest, ALearningRateCanBeSet) {
  Model a = compiled(nullptr, "sgd"), b = compiled(nullptr, "sgd");
  a.set_learning_rate(0.02);
  EXPECT_DOUBLE_EQ(a.learning_rate(), 0.02);
  a.fit(rows_of(40).batch(10));
  CompileOptions options = testing::settings("sgd");
  options.optimizer = optim::sgd({.learning_rate = 0.02, .momentum = 0.9});
  b.compile(options);
  b.fit(rows_of(40).batch(10));
  EXPECT_LT(difference(weights_of(a), weights_of(b)), 1e-7);
}

TEST(FitTest, SaysWhatDoesNotFit) {
  Model model(two_layers(), alone());
  const Dataset data = rows_of(20).batch(5);
  EXPECT_THAT(message_of([&] { model.fit(data); }), HasSubstr("was not compiled"));
  model.compile(testing::settings());
  EXPECT_THAT(message_of([&] { model.fit(data.repeat()); }), HasSubstr("never ends"));
  EXPECT_THAT(message_of([&] { model.fit(data, {.epochs = 0}); }), HasSubstr("epochs is 0"));
  EXPECT_THAT(message_of([&] { model.fit(data, {.epochs = 2, .initial_epoch = 2}); }),
              HasSubstr("there is nothing to train"));
  Model other = compiled();
  EXPECT_THAT(message_of([&] { other.fit(data.take(0)); }), HasSubstr("gave no examples"));
  Model third = compiled();
  EXPECT_THAT(message_of([&] { third.fit(data, {.validation_data = data.take(0)}); }),
              HasSubstr("gave no examples"));
  Model fourth = compiled();
  EXPECT_THAT(
      message_of([&] { fourth.fit(Dataset::from_tensor_slices(testing::points(8).x).batch(4)); }),
      HasSubstr("without labels"));
}

// A backup in an epoch whose first batch has not ended: the mean of nothing is NaN.
TEST(FitTest, AnEpochWithoutAnExampleGoesIntoABackup) {
  const auto strategy = distribute::one_device();
  const nlohmann::json saved = internal::Tally({}).save(*strategy);
  internal::Tally tally({});
  tally.restore(nlohmann::json::parse(saved.dump()), /*first=*/true);
  EXPECT_EQ(tally.rows(), 0);
  EXPECT_TRUE(std::isnan(tally.over_all(*strategy).at("loss")));
}

}  // namespace
}  // namespace muster::inline v0_1::keras
