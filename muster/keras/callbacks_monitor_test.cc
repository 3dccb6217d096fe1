// Which epoch is the best: a metric knows whether higher or lower values of it are better.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/testing/test_models.h"
#include "muster/metrics/metrics.h"

namespace muster::inline v0_1::keras {
namespace {

using testing::alone;
using testing::compiled;
using testing::difference;
using ::testing::HasSubstr;
using testing::rows_of;
using testing::two_layers;

// Puts values into the Logs under a name of the test.
struct Says : Callback {
  Says(std::string name, std::vector<double> values)
      : said(std::move(name)), values(std::move(values)) {}
  void on_epoch_end(int64_t epoch, Logs& logs) override {
    logs[said] = values[static_cast<size_t>(epoch)];
  }
  const std::string said;
  const std::vector<double> values;
};

// The value that a Monitor in mode auto takes for the better one after the first batch.
struct Learns : Callback {
  explicit Learns(std::vector<std::string> names) : names(std::move(names)) {}
  void on_train_batch_end(const BatchInfo& info) override {
    if (info.batch > 0) return;
    for (const std::string& name : names) {
      Monitor monitor("test", name, MonitorMode::kAuto);
      monitor.learn(model(), /*there=*/true);
      lower[name] = monitor.lower_is_better();
    }
  }
  const std::vector<std::string> names;
  std::map<std::string, bool> lower;
};

Metric r2_of(const Tensor& labels, const Tensor& outputs, const Tensor&) {
  return metrics::r2_score(labels.to(kFloat32).unsqueeze(1), outputs.slice(1, 0, 1));
}

Metric mean_of(const Tensor&, const Tensor& outputs, const Tensor&) {
  return metrics::mean(outputs.select(1, 0));
}

Model with_metrics(std::vector<MetricChoice> metrics) {
  Model model(two_layers(), alone());
  CompileOptions options = testing::settings();
  options.metrics = std::move(metrics);
  model.compile(options);
  return model;
}

int64_t best_of(const std::string& name, const std::vector<double>& values,
                MonitorMode mode = MonitorMode::kAuto) {
  Model model = compiled();
  const auto stopping = std::make_shared<EarlyStopping>(
      EarlyStoppingOptions{.monitor = name, .patience = 9, .mode = mode});
  model.fit(rows_of(8).batch(8), {.epochs = static_cast<int64_t>(values.size()),
                                  .callbacks = {std::make_shared<Says>(name, values), stopping},
                                  .verbose = Verbose::kSilent});
  return stopping->best_epoch();
}

TEST(MonitorTest, ANameSaysWhichValuesAreBetter) {
  const std::vector<double> values{0.4, 0.9, 0.1, 0.5};
  for (const char* name : {"val_auc_pr", "val_cosine_similarity", "mean_iou", "val_r2_score",
                           "f1_score", "val_top_k_categorical_accuracy", "recall"}) {
    EXPECT_EQ(best_of(name, values), 1) << name;
  }
  for (const char* name : {"said_loss", "val_mae", "kl_divergence", "perplexity"})
    EXPECT_EQ(best_of(name, values), 2) << name;
  EXPECT_EQ(best_of("val_recall", values, MonitorMode::kMin), 2);
}

TEST(MonitorTest, AMetricSaysItWhateverItIsCalled) {
  Model model = with_metrics({MetricChoice("goodness", r2_of), "accuracy", "crossentropy",
                              MetricChoice("price", mean_of, Better::kLower),
                              MetricChoice("gain", mean_of, Better::kHigher)});
  const auto learns = std::make_shared<Learns>(
      std::vector<std::string>{"val_goodness", "goodness/output_0", "accuracy", "val_crossentropy",
                               "val_price", "gain", "loss"});
  model.fit(rows_of(8).batch(4), {.callbacks = {learns}, .verbose = Verbose::kSilent});
  EXPECT_EQ(learns->lower, (std::map<std::string, bool>{{"val_goodness", false},
                                                        {"goodness/output_0", false},
                                                        {"accuracy", false},
                                                        {"val_crossentropy", true},
                                                        {"val_price", true},
                                                        {"gain", false},
                                                        {"loss", true}}));
}

TEST(MonitorTest, AnUnknownMetricIsRefusedAfterTheFirstBatch) {
  const std::shared_ptr<Callback> followers[] = {
      std::make_shared<EarlyStopping>(EarlyStoppingOptions{.monitor = "val_mine"}),
      std::make_shared<ReduceLROnPlateau>(ReduceLROnPlateauOptions{.monitor = "val_mine"}),
      std::make_shared<ModelCheckpoint>(
          "never_written", ModelCheckpointOptions{.monitor = "val_mine", .save_best_only = true})};
  for (const auto& follower : followers) {
    Model model = with_metrics({MetricChoice("mine", mean_of)});
    const Error error = error_of([&] {
      model.fit(rows_of(20).batch(10), {.epochs = 2,
                                        .validation_data = rows_of(8).batch(8),
                                        .callbacks = {follower},
                                        .verbose = Verbose::kSilent});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("follows \"val_mine\""));
    EXPECT_THAT(error.hint(), HasSubstr("MonitorMode::kMax"));
    EXPECT_EQ(model.step(), 1);
  }
  EXPECT_THAT(error_of([] { best_of("told", {1, 2}); }).message(), HasSubstr("follows \"told\""));
  EXPECT_EQ(best_of("told", {1, 2}, MonitorMode::kMax), 1);
}

TEST(MonitorTest, NaNIsNeverBest) {
  Monitor monitor("test", "loss", MonitorMode::kMin, 0.5);
  EXPECT_FALSE(monitor.is_better(std::nan("")));
  EXPECT_TRUE(monitor.is_better(7));
  EXPECT_EQ(monitor.best(), std::numeric_limits<double>::infinity());
  monitor.set_best(7);
  EXPECT_FALSE(monitor.is_better(6.6));
  EXPECT_TRUE(monitor.is_better(6));
}

TEST(MonitorTest, TwoOfOneClassHaveStatesOfTheirOwnInABackup) {
  const TempDirectory folder;
  const std::vector<double> values{5, 4.99, 4.98, 4.97, 4.96, 4.95, 4.94, 4.93, 4.92};
  struct Killed : Callback {
    void on_epoch_begin(int64_t epoch) override {
      if (epoch == 4) throw std::runtime_error("killed");
    }
  };
  const auto run = [&](bool killed, bool backs_up) {
    // The first gains a little in each epoch, the second nothing for which it would wait.
    const auto patient = std::make_shared<EarlyStopping>(
        EarlyStoppingOptions{.monitor = "said_loss", .patience = 3, .restore_best_weights = true});
    const auto strict = std::make_shared<EarlyStopping>(EarlyStoppingOptions{
        .monitor = "said_loss", .min_delta = 0.5, .patience = 6, .restore_best_weights = true});
    Model model = compiled();
    FitOptions options{.epochs = 9, .verbose = Verbose::kSilent};
    options.callbacks = {std::make_shared<Says>("said_loss", values), patient, strict};
    if (backs_up) options.callbacks.push_back(std::make_shared<BackupAndRestore>(folder / "b"));
    if (killed) options.callbacks.push_back(std::make_shared<Killed>());
    const History history = model.fit(rows_of(20).batch(10), options);
    EXPECT_EQ(patient->best_epoch(), 6);
    EXPECT_EQ(strict->stopped_epoch(), 6);
    EXPECT_EQ(strict->best_epoch(), 0);
    EXPECT_EQ(history.epoch.size(), 7u);
    return testing::weights_of(model);
  };
  const auto whole = run(false, false);
  EXPECT_THROW(run(true, true), std::exception);
  EXPECT_EQ(difference(run(false, true), whole), 0);
}

}  // namespace
}  // namespace muster::inline v0_1::keras
