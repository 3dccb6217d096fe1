#include "muster/keras/callbacks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/event.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/progbar_logger.h"
#include "muster/keras/testing/test_models.h"

namespace muster::inline v0_1::keras {
namespace {

using ::testing::AllOf;
using testing::compiled;
using testing::difference;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::rows_of;
using ::testing::StartsWith;
using testing::Told;
using testing::Weights;
using testing::weights_of;

TEST(EarlyStoppingTest, StopsBehindItsPatienceAndGivesTheBestWeightsBack) {
  for (const bool restore : {false, true}) {
    Model model = compiled();
    const auto weights = std::make_shared<Weights>();
    const auto stopping = std::make_shared<EarlyStopping>(EarlyStoppingOptions{
        .monitor = "val_told_loss", .patience = 2, .restore_best_weights = restore});
    const History history =
        model.fit(rows_of(20).batch(10),
                  {.epochs = 9,
                   .callbacks = {std::make_shared<Told>(std::vector<double>{5, 3, 4, 3.5, 1, 1}),
                                 weights, stopping}});
    EXPECT_THAT(history.epoch, ElementsAre(0, 1, 2, 3));
    EXPECT_EQ(stopping->stopped_epoch(), 3);
    EXPECT_EQ(stopping->best_epoch(), 1);
    EXPECT_EQ(difference(weights_of(model), weights->of_epochs[restore ? 1 : 3]), 0);
  }
}

// The best weights were those of an epoch before the run was stopped.
TEST(EarlyStoppingTest, GoesOnWhereItStood) {
  const TempDirectory directory;
  struct Killed : Callback {
    void on_epoch_begin(int64_t epoch) override {
      if (epoch == 2) throw std::runtime_error("killed");
    }
  };
  const auto run = [&](Model& model, bool killed, const std::string& folder) {
    FitOptions options{.epochs = 9};
    options.callbacks = {
        std::make_shared<Told>(std::vector<double>{5, 3, 4, 3.5, 1, 1}),
        std::make_shared<EarlyStopping>(EarlyStoppingOptions{
            .monitor = "val_told_loss", .patience = 2, .restore_best_weights = true}),
        std::make_shared<BackupAndRestore>(directory / folder)};
    if (killed) options.callbacks.push_back(std::make_shared<Killed>());
    return model.fit(rows_of(20).batch(10), options);
  };
  Model whole = compiled();
  run(whole, false, "whole");
  {
    Model first = compiled();
    EXPECT_THROW(run(first, true, "stopped"), std::exception);
  }
  Model second = compiled();
  const History history = run(second, false, "stopped");
  EXPECT_THAT(history.epoch, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(difference(weights_of(whole), weights_of(second)), 0);
}

TEST(ReduceLROnPlateauTest, LowersTheRateAfterItsPatience) {
  Model model = compiled(nullptr, "sgd");
  const History history = model.fit(
      rows_of(20).batch(10),
      {.epochs = 8,
       .callbacks = {
           std::make_shared<Told>(std::vector<double>{3, 2, 2, 2, 2, 2, 2, 2}),
           std::make_shared<ReduceLROnPlateau>(ReduceLROnPlateauOptions{.monitor = "val_told_loss",
                                                                        .factor = 0.5,
                                                                        .patience = 2,
                                                                        .cooldown = 1,
                                                                        .min_lr = 0.03})}});
  // After the fourth epoch, and of the two after it the first cools down and counts, as in Keras.
  EXPECT_THAT(
      history["learning_rate"],
      ::testing::Pointwise(::testing::DoubleEq(), {0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.03, 0.03}));
}

TEST(LearningRateSchedulerTest, SetsTheRateOfEachEpoch) {
  Model model = compiled(nullptr, "sgd");
  const History history =
      model.fit(rows_of(20).batch(10),
                {.epochs = 3,
                 .callbacks = {std::make_shared<LearningRateScheduler>(
                     [](int64_t epoch, double rate) { return epoch < 1 ? rate : rate / 2; })}});
  EXPECT_THAT(history["learning_rate"],
              ::testing::Pointwise(::testing::DoubleEq(), {0.1, 0.05, 0.025}));
}

TEST(ModelCheckpointTest, SavesWhatWasBestUnderItsName) {
  const TempDirectory directory;
  Model model = compiled();
  const auto weights = std::make_shared<Weights>();
  model.fit(rows_of(20).batch(10),
            {.epochs = 4,
             .callbacks = {std::make_shared<Told>(std::vector<double>{5, 3, 4, 3.5}), weights,
                           std::make_shared<ModelCheckpoint>(
                               directory / "w-{epoch:02d}-{val_told_loss:.1f}.safetensors",
                               ModelCheckpointOptions{.monitor = "val_told_loss",
                                                      .save_best_only = true,
                                                      .save_weights_only = true})}});
  EXPECT_THAT(local_file_system().list_directory(directory.path()).value(),
              ElementsAre("w-01-5.0.safetensors", "w-02-3.0.safetensors"));
  Model other = compiled();
  other.build({4});
  other.load_weights(directory / "w-02-3.0.safetensors");
  EXPECT_EQ(difference(weights_of(other), weights->of_epochs[1]), 0);
  EXPECT_THAT(message_of([&] {
                model.fit(rows_of(8).batch(4),
                          {.callbacks = {std::make_shared<ModelCheckpoint>(
                               directory / "w-{los}.safetensors",
                               ModelCheckpointOptions{.save_weights_only = true})}});
              }),
              HasSubstr("w-{los}"));
}

TEST(CSVLoggerTest, WritesALineForEachEpoch) {
  const TempDirectory directory;
  Model model = compiled();
  const History history =
      model.fit(rows_of(20).batch(10),
                {.epochs = 2, .callbacks = {std::make_shared<CSVLogger>(directory / "log.csv")}});
  EXPECT_EQ(local_file_system().read_file(directory / "log.csv").value(), history.to_csv());
}

// Keras writes "NA" where an epoch was not validated; a table's empty field says the same.
TEST(CSVLoggerTest, HasTheColumnsOfWhatIsValidatedLaterFromTheFirstLine) {
  const TempDirectory directory;
  struct Adds : Callback {
    void on_epoch_end(int64_t epoch, Logs& logs) override {
      if (epoch == 2) logs["added"] = 0.5;
    }
  };
  const auto lines_of = [&](const std::string& separator, bool append, int64_t epochs) {
    Model model = compiled();
    model.fit(rows_of(20).batch(10),
              {.epochs = epochs,
               .validation_data = rows_of(10, 50).batch(10),
               .validation_freq = 2,
               .callbacks = {std::make_shared<Adds>(),
                             std::make_shared<CSVLogger>(directory / "log.csv", separator, append)},
               .verbose = Verbose::kSilent});
    return split(local_file_system().read_file(directory / "log.csv").value(), '\n');
  };
  const std::vector<std::string> lines = lines_of(",", false, 3);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "epoch,accuracy,loss,val_accuracy,val_loss,added");
  for (size_t l = 0; l < 4; ++l) EXPECT_EQ(std::ranges::count(lines[l], ','), 5) << lines[l];
  EXPECT_THAT(lines[1], EndsWith(",,,"));
  EXPECT_THAT(lines[2], AllOf(Not(HasSubstr(",,")), EndsWith(",")));
  EXPECT_THAT(lines[3], EndsWith(",,,0.5"));
  // Appending to a file keeps its columns.
  const std::vector<std::string> more = lines_of(",", true, 2);
  ASSERT_EQ(more.size(), 7u);
  EXPECT_EQ(more[0], lines[0]);
  EXPECT_THAT(more[4], AllOf(StartsWith("0,"), EndsWith(",,,")));
  EXPECT_THAT(error_of([&] { lines_of(";", true, 1); }).message(),
              HasSubstr("which is not a header"));
}

TEST(TensorBoardTest, WritesLossesRatesAndWeights) {
  const TempDirectory directory;
  Model model = compiled();
  const History history = model.fit(
      rows_of(20).batch(10), {.epochs = 2,
                              .validation_data = rows_of(10, 50).batch(10),
                              .callbacks = {std::make_shared<TensorBoard>(
                                  directory / "logs", TensorBoardOptions{.histogram_freq = 1})}});
  const auto values_of = [&](const std::string& part) {
    std::map<std::string, std::vector<double>> values;
    for (const std::string& file :
         local_file_system().list_directory(directory / "logs/" + part).value()) {
      for (const formats::Event& event :
           formats::read_events(local_file_system(), directory / "logs/" + part + "/" + file)
               .value()
               .events) {
        for (const formats::SummaryValue& value : event.values) {
          const auto* number = std::get_if<float>(&value.value);
          values[value.tag].push_back(number != nullptr ? *number : 0);
        }
      }
    }
    return values;
  };
  const auto train = values_of("train");
  ASSERT_EQ(train.at("epoch_loss").size(), 2u);
  EXPECT_FLOAT_EQ(static_cast<float>(train.at("epoch_loss")[1]),
                  static_cast<float>(history["loss"][1]));
  EXPECT_EQ(train.at("dense/kernel").size(), 2u);
  EXPECT_EQ(train.at("epoch_learning_rate").size(), 2u);
  EXPECT_EQ(values_of("validation").at("epoch_accuracy").size(), 2u);
}

TEST(LambdaCallbackTest, IsCalledAtItsMoments) {
  std::string moments;
  Model model = compiled();
  model.fit(rows_of(20).batch(10),
            {.callbacks = {std::make_shared<LambdaCallback>(LambdaCallback::Functions{
                 .on_train_begin = [&] { moments += "T"; },
                 .on_train_end = [&] { moments += "t"; },
                 .on_epoch_begin = [&](int64_t) { moments += "E"; },
                 .on_epoch_end = [&](int64_t, Logs&) { moments += "e"; },
                 .on_batch_begin = [&](int64_t) { moments += "B"; },
                 .on_batch_end = [&](const BatchInfo&) { moments += "b"; }})}});
  EXPECT_EQ(moments, "TEBbBbet");
}

TEST(CallbacksTest, AProgbarLoggerPrintsWhereItStands) {
  struct Adds : Callback {
    void on_epoch_end(int64_t, Logs& logs) override { logs["added"] = 0.5; }
  };
  const auto printed = [&](FitOptions options) {
    Model model = compiled();
    options.epochs = 2;
    ::testing::internal::CaptureStderr();
    model.fit(rows_of(20).batch(10), options);
    return ::testing::internal::GetCapturedStderr();
  };
  const auto adds = std::make_shared<Adds>();
  const auto line = [](int epoch) { return fmt::format("epoch {}/2  2 steps  ", epoch); };
  const std::string own = printed({.callbacks = {adds}});
  EXPECT_THAT(own, AllOf(HasSubstr(line(1)), HasSubstr(line(2)), HasSubstr("added 0.5")));
  const std::string given = printed({.callbacks = {std::make_shared<ProgbarLogger>(), adds}});
  EXPECT_THAT(given, AllOf(HasSubstr(line(2)), Not(HasSubstr("added"))));
  EXPECT_EQ(given.find(line(1)), given.rfind(line(1))) << "one of them prints";
  EXPECT_THAT(printed({.verbose = Verbose::kSilent}), Not(HasSubstr("epoch 1/2")));
  EXPECT_THAT(printed({.steps_per_epoch = 1}), HasSubstr("epoch 1/2  1 step  "));
  struct Shows : Callback {
    CallbackNeeds needs() const override { return {.shows_progress = true}; }
  };
  EXPECT_THAT(printed({.callbacks = {std::make_shared<Shows>()}}), Not(HasSubstr("epoch 1/2")));
}

TEST(HistoryTest, IsAPicture) {
  History history;
  history.add(0, {{"loss", 1.5}, {"accuracy", 0.5}});
  history.add(1, {{"loss", 0.7}, {"val_loss", 0.9}, {"accuracy", 0.7}});
  EXPECT_TRUE(std::isnan(history["val_loss"][0]));
  EXPECT_THAT(message_of([&] { history["acuracy"]; }), HasSubstr("acuracy"));
  EXPECT_EQ(history.to_csv(), "epoch,accuracy,loss,val_loss\n0,0.5,1.5,nan\n1,0.7,0.7,0.9\n");
  const TempDirectory directory;
  history.plot(directory / "history.svg");
  const std::string svg = local_file_system().read_file(directory / "history.svg").value();
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("epoch 2: 0.9000"));
  EXPECT_THAT(message_of([&] { history.plot(directory / "history.png"); }), HasSubstr(".svg"));
}

TEST(CallbacksTest, SayWhatIsOutOfRange) {
  EXPECT_THAT(message_of([] { EarlyStopping({.patience = -1}); }), HasSubstr("patience is -1"));
  EXPECT_THAT(message_of([] { ReduceLROnPlateau({.factor = 1}); }), HasSubstr("factor is 1"));
  EXPECT_THAT(message_of([] { BackupAndRestore(""); }), HasSubstr("backup_dir"));
  EXPECT_THAT(message_of([] { ModelCheckpoint("a", {.save_weights_only = true}); }),
              HasSubstr(".safetensors"));
  EXPECT_THAT(message_of([] { LearningRateScheduler(nullptr); }), HasSubstr("no function"));
  EXPECT_THAT(message_of([] { TensorBoard(""); }), HasSubstr("log_dir"));
}

}  // namespace
}  // namespace muster::inline v0_1::keras
