// fit() of an elastic run: workers are lost and come while the others train on, from memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/testing/test_models.h"
#include "muster/layers/dropout.h"
#include "muster/loop/scope.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::keras {
namespace {

using muster::testing::LocalCluster;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::rows_of;
using testing::weights_of;

// What happens to a worker in a test.
struct Scripted : Callback {
  std::function<void()> at_begin;
  std::function<void(int64_t step)> at_step;  // after this step of the model
  std::function<void(int64_t epoch)> at_epoch;
  void on_train_begin(const FitInfo&) override {
    if (at_begin) at_begin();
  }
  void on_train_batch_end(const BatchInfo&) override {
    if (at_step) at_step(model().step());
  }
  void on_epoch_end(int64_t epoch, Logs&) override {
    if (at_epoch) at_epoch(epoch);
  }
  // Ends this worker as the others see a lost one: the group ends, and it does not come again.
  void be_lost() {
    model().strategy()->run({.training = false},
                            [] { throw Error(ErrorKind::kUnavailable, "lost by the test"); });
  }
  int workers() { return model().strategy()->scope().num_replicas_in_sync(); }
};

class ElasticFitTest : public ::testing::Test {
 protected:
  Model worker(const LocalCluster& cluster, int rank, Layer layer = testing::two_layers(),
               const CompileOptions& settings = testing::settings()) {
    Environment environment = cluster.environment(rank);
    if (min_workers > 0)
      environment = environment.with("MUSTER_MIN_WORKERS", std::to_string(min_workers));
    Model model(std::move(layer),
                {.strategy = distribute::multi_worker_mirrored({.local_replicas = local_replicas}),
                 .seed = 3,
                 .environment = environment});
    model.compile(settings);
    return model;
  }

  int min_workers = 1, local_replicas = 1;
  TempDirectory directory;
};

// Twelve rows a step, five steps an epoch.
Dataset sixty() { return rows_of(60).shuffle(60).global_batch(12); }

bool same_bits(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a, [&](const auto& one) { return one.second.equal(b.at(one.first)); });
}

// After step 7 of three workers one is lost, and two go on: with the bits, and the losses, of a run
// that was stopped there, and continued by two from its backup.
TEST_F(ElasticFitTest, TheOthersHaveTheBitsOfARunThatFewerContinue) {
  constexpr int64_t kEpochs = 4;
  const auto layer = [] {
    return Sequential({Dense(8, {.activation = activations::tanh}), Dropout(0.2), Dense(2)});
  };
  CompileOptions settings = testing::settings();
  settings.metrics = {};
  min_workers = 0;
  std::map<std::string, Tensor> parts;
  History history;
  for (const int workers : {3, 2}) {
    const LocalCluster cluster(workers);
    muster::testing::run_ranks(workers, [&](int rank) {
      Model model = worker(cluster, rank, layer(), settings);
      struct Stops : Callback {
        void on_train_batch_begin(int64_t) override {
          if (model().step() == 7) throw invalid_argument("stopped by the test");
        }
      };
      FitOptions fit{.epochs = kEpochs, .verbose = Verbose::kSilent};
      fit.callbacks = {std::make_shared<BackupAndRestore>(
          directory / "backup",
          BackupAndRestoreOptions{.save_freq = 7, .delete_checkpoint = false})};
      if (workers == 3) {
        fit.callbacks.push_back(std::make_shared<Stops>());
        EXPECT_EQ(error_of([&] { model.fit(sixty(), fit); }).kind(), ErrorKind::kInvalidArgument);
        return;
      }
      const History mine = model.fit(sixty(), fit);
      const auto weights = weights_of(model);
      if (rank != 0) return;
      parts = weights;
      history = mine;
    });
  }
  min_workers = 2;
  for (const int lost : {1, 2}) {
    SCOPED_TRACE(lost);
    const LocalCluster cluster(3);
    std::atomic<bool> is_made{false};
    muster::testing::run_ranks(3, [&](int rank) {
      Model model = worker(cluster, rank, layer(), settings);
      const auto script = std::make_shared<Scripted>();
      std::vector<int64_t> begun;
      script->at_begin = [&] { begun.push_back(model.step()); };
      script->at_step = [&](int64_t step) {
        if (step != 7) return;
        if (rank != lost) {
          is_made = true;
          return;
        }
        // One that is left has made this step too: else they continue after the step before.
        await([&] { return is_made.load(); });
        script->be_lost();
      };
      const auto whole = [&] {
        const History mine = model.fit(
            sixty(), {.epochs = kEpochs, .callbacks = {script}, .verbose = Verbose::kSilent});
        EXPECT_EQ(mine.epoch, (std::vector<int64_t>{0, 1, 2, 3}));
        EXPECT_EQ(mine.history, history.history);
        EXPECT_TRUE(same_bits(weights_of(model), parts));
      };
      if (rank == lost) {
        EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
        return;
      }
      whole();
      EXPECT_THAT(begun, ElementsAre(0, 7));
    });
  }
}

// A weight for each example, to which each use in an update of twelve adds 1.
constexpr int64_t kExamples = 96, kBatch = 12;
Layer uses() { return Dense(1, {.use_bias = false, .kernel_initializer = initializers::zeros()}); }
CompileOptions counting() {
  return {.optimizer = optim::sgd({.learning_rate = kBatch}), .loss = "mae"};
}
Dataset one_hot() {
  return Dataset::from_tensor_slices(
             Element::tuple({torch::eye(kExamples), torch::full({kExamples, 1}, 1000.0)}))
      .shuffle(kExamples);
}

class ElasticFitExamplesTest : public ElasticFitTest, public ::testing::WithParamInterface<int> {};

// Workers are lost and come again, in steps and at ends of epochs, and each example is used once in
// each epoch.
TEST_P(ElasticFitExamplesTest, EachIsUsedOnceWhateverHappens) {
  constexpr int64_t kEpochs = 4;
  CompileOptions settings = counting();
  settings.accumulate_steps = GetParam();
  const LocalCluster cluster(3);
  std::atomic<int> groups{0}, groups_at_loss{0}, most_again{0};
  std::atomic<bool> away{false};
  muster::testing::run_ranks(3, [&](int rank) {
    int calls = 0;
    for (bool over = false; !over;) {
      if (++calls > 1) await([&] { return groups > groups_at_loss; });
      if (rank == 1) away = false;
      Model model = worker(cluster, rank, uses(), settings);
      const auto script = std::make_shared<Scripted>();
      int64_t joined_at = 0;
      bool is_complete = false;
      script->at_begin = [&] {
        joined_at = model.step();
        is_complete = joined_at > 0 && script->workers() == 3;
        if (rank != 0) return;
        ++groups;
        if (joined_at > 0) most_again = std::max(most_again.load(), script->workers());
      };
      const auto lose = [&] {
        groups_at_loss = groups.load();
        away = true;
        script->be_lost();
      };
      script->at_step = [&](int64_t step) {
        if (rank == 1 && calls == 1 && step == 3) lose();
        if (rank == 2 && is_complete) script->be_lost();
        if (rank != 0) return;
        // Time in which worker 1 is noticed when it comes.
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        await([&] { return !away || groups == groups_at_loss; });
      };
      script->at_epoch = [&](int64_t) {
        if (rank == 1 && calls == 2) lose();
      };
      try {
        const History history =
            model.fit(one_hot().global_batch(kBatch / GetParam()),
                      {.epochs = kEpochs, .callbacks = {script}, .verbose = Verbose::kSilent});
        EXPECT_EQ(history.epoch.size(), kEpochs);
        EXPECT_EQ(model.step(), kEpochs * kExamples / kBatch);
        const Tensor used = weights_of(model).begin()->second;
        EXPECT_NEAR(used.min().item<double>(), kEpochs, 1e-3);
        EXPECT_NEAR(used.max().item<double>(), kEpochs, 1e-3);
        over = true;
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("lost by the test"));
        over = rank == 2;
      }
    }
    EXPECT_EQ(calls, rank == 1 ? 3 : 1);
  });
  EXPECT_GE(groups, 5) << "the chief trained in so many groups";
  EXPECT_EQ(most_again, 3) << "worker 1 came again while worker 2 was there";
}

INSTANTIATE_TEST_SUITE_P(AccumulateSteps, ElasticFitExamplesTest, ::testing::Values(1, 3));

// Losses, metrics and callbacks go on: a loss in the middle of an epoch, and one while
// on_epoch_end() of the second epoch is called, which is called again.
TEST_F(ElasticFitTest, HistoryAndCallbacksGoOn) {
  constexpr int64_t kEpochs = 4;
  const LocalCluster cluster(3);
  std::atomic<int> ends{0};
  muster::testing::run_ranks(3, [&](int rank) {
    Model model = worker(cluster, rank);
    const auto script = std::make_shared<Scripted>();
    script->at_step = [&](int64_t step) {
      if (rank == 1 && step == 3) script->be_lost();
    };
    script->at_epoch = [&](int64_t epoch) {
      if (rank == 0 && epoch == 1) ++ends;
      if (rank == 2 && epoch == 1) script->be_lost();
      (void)model.get_weights();
    };
    std::vector<int64_t> rates;
    const auto scheduler = std::make_shared<LearningRateScheduler>([&](int64_t epoch, double rate) {
      rates.push_back(epoch);
      return rate / 2;
    });
    const auto stopping = std::make_shared<EarlyStopping>(EarlyStoppingOptions{
        .monitor = "val_told_loss", .patience = 2, .restore_best_weights = true});
    const auto weights = std::make_shared<testing::Weights>();
    const auto csv = std::make_shared<CSVLogger>(directory / "log.csv");
    const auto whole = [&] {
      const History history = model.fit(
          sixty(), {.epochs = kEpochs,
                    .validation_data = rows_of(24, 60).global_batch(12),
                    .callbacks = {scheduler,
                                  std::make_shared<testing::Told>(std::vector<double>{3, 2, 4, 5}),
                                  stopping, script, weights, csv,
                                  std::make_shared<ModelCheckpoint>(
                                      directory / "{epoch}.safetensors",
                                      ModelCheckpointOptions{.save_weights_only = true})},
                    .verbose = Verbose::kSilent});
      EXPECT_EQ(history.epoch, (std::vector<int64_t>{0, 1, 2, 3}));
      for (const auto& [name, values] : history.history) {
        EXPECT_EQ(values.size(), kEpochs) << name;
        EXPECT_THAT(values, Each(::testing::Gt(0))) << name;
      }
      EXPECT_TRUE(history.history.contains("val_accuracy"));
      // Twice as long without improvement: the weights of the best epoch, the second, are back.
      EXPECT_TRUE(same_bits(weights_of(model), weights->of_epochs.at(1)));
      EXPECT_NEAR(model.learning_rate(), 0.01 / 16, 1e-9);
    };
    if (rank != 0) {
      EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
      return;
    }
    whole();
    EXPECT_EQ(rates, (std::vector<int64_t>{0, 1, 2, 3}));
  });
  EXPECT_EQ(ends, 2) << "once before the loss, and again after it";
  std::ifstream lines(directory / "log.csv");
  std::vector<std::string> epochs;
  for (std::string line; std::getline(lines, line);)
    epochs.push_back(line.substr(0, line.find(',')));
  EXPECT_THAT(epochs, ElementsAre("epoch", "0", "1", "2", "3"));
  for (int epoch = 1; epoch <= kEpochs; ++epoch)
    EXPECT_TRUE(std::filesystem::exists(directory / (std::to_string(epoch) + ".safetensors")));
}

// A backup goes on over a loss, and a run that is killed as a whole continues from it.
TEST_F(ElasticFitTest, BackupsGoOn) {
  const auto fit = [&](int rank, const LocalCluster& cluster, int64_t lost_at, int64_t killed_at) {
    Model model = worker(cluster, rank, uses(), counting());
    const auto script = std::make_shared<Scripted>();
    script->at_step = [&, rank](int64_t step) {
      if (rank == 1 && step == lost_at) script->be_lost();
      if (step == killed_at) throw invalid_argument("stopped by the test");
    };
    model.fit(one_hot().global_batch(kBatch),
              {.epochs = 3,
               .callbacks = {std::make_shared<BackupAndRestore>(
                                 directory / "backup", BackupAndRestoreOptions{.save_freq = 2}),
                             script},
               .verbose = Verbose::kSilent});
    EXPECT_EQ(model.step(), 24);
    return weights_of(model).begin()->second;
  };
  {
    const LocalCluster cluster(3);
    muster::testing::run_ranks(3, [&](int rank) {
      const Error error = error_of([&] { (void)fit(rank, cluster, 5, 13); });
      EXPECT_EQ(error.kind(), rank == 1 ? ErrorKind::kUnavailable : ErrorKind::kInvalidArgument);
    });
  }
  const LocalCluster cluster(2);
  muster::testing::run_ranks(2, [&](int rank) {
    const Tensor used = fit(rank, cluster, -1, -1);
    EXPECT_NEAR(used.min().item<double>(), 3, 1e-3);
    EXPECT_NEAR(used.max().item<double>(), 3, 1e-3);
  });
  EXPECT_FALSE(std::filesystem::exists(directory / "backup"));
}

// Calls before fit() are each worker's own; those after it are of the group at its end.
TEST_F(ElasticFitTest, CallsBeforeAndAfterFit) {
  const testing::Points some = testing::points(24);
  Model before(testing::two_layers(), testing::alone());
  before.compile(testing::settings());
  before.fit(some.x, some.y, {.batch_size = 8, .verbose = Verbose::kSilent});
  before.save_weights(directory / "w.safetensors");
  const Logs expected = before.evaluate(some.x, some.y);
  const LocalCluster cluster(2);
  muster::testing::run_ranks(2, [&](int rank) {
    // The other one comes when this one has made its calls.
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Model model = worker(cluster, rank);
    EXPECT_EQ(model.is_chief(), rank == 0);
    model.build({4});
    model.load_weights(directory / "w.safetensors");
    EXPECT_EQ(model.evaluate(some.x, some.y), expected);
    model.save_weights(directory / ("begin" + std::to_string(rank) + ".safetensors"));
    EXPECT_EQ(std::filesystem::exists(directory / "begin1.safetensors"), false);
    const Error error = error_of([&] { model.train_on_batch(Element(some.x), Element(some.y)); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("not supported: train_on_batch() before fit()"));
    CompileOptions still = testing::settings("sgd");
    still.optimizer = optim::sgd({.learning_rate = 0});
    model.compile(still);
    const auto script = std::make_shared<Scripted>();
    script->at_step = [&](int64_t step) {
      if (rank == 1 && step == 2) script->be_lost();
    };
    const auto whole = [&] {
      model.fit(rows_of(48).global_batch(12),
                {.epochs = 2, .callbacks = {script}, .verbose = Verbose::kSilent});
    };
    if (rank == 1) {
      EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
      return;
    }
    whole();
    EXPECT_EQ(model.step(), 8);
    EXPECT_TRUE(same_bits(weights_of(model), weights_of(before)));
    EXPECT_EQ(model.evaluate(some.x, some.y).at("accuracy"), expected.at("accuracy"));
    EXPECT_NO_THROW(model.train_on_batch(Element(some.x), Element(some.y)));
  });
}

TEST_F(ElasticFitTest, BeforeTheFirstStepTheOthersBeginAnew) {
  local_replicas = 2;
  const LocalCluster cluster(3);
  muster::testing::run_ranks(3, [&](int rank) {
    Model model = worker(cluster, rank, uses(), counting());
    const auto script = std::make_shared<Scripted>();
    script->at_begin = [&] {
      if (rank == 2) script->be_lost();
    };
    const auto whole = [&] {
      model.fit(one_hot().global_batch(kBatch),
                {.epochs = 2, .callbacks = {script}, .verbose = Verbose::kSilent});
      EXPECT_EQ(model.step(), 16);
      const Tensor used = weights_of(model).begin()->second;
      EXPECT_NEAR(used.min().item<double>(), 2, 1e-3);
      EXPECT_NEAR(used.max().item<double>(), 2, 1e-3);
    };
    if (rank != 2) return whole();
    EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
  });
}

// Steps over a part of the data, and a second fit() with a part of the model, which loses one more.
TEST_F(ElasticFitTest, AnotherFitIsElasticToo) {
  const LocalCluster cluster(3);
  muster::testing::run_ranks(3, [&](int rank) {
    Model model = worker(cluster, rank);
    const auto script = std::make_shared<Scripted>();
    script->at_step = [&](int64_t step) {
      // The last step of an epoch, and one of the second call.
      if (rank == 1 && step == 3) script->be_lost();
      if (rank == 2 && step == 10) script->be_lost();
    };
    FitOptions fit{.epochs = 2, .steps_per_epoch = 3, .verbose = Verbose::kSilent};
    fit.callbacks = {script};
    const auto whole = [&] {
      EXPECT_EQ(model.fit(sixty().repeat(), fit).epoch.size(), 2);
      EXPECT_EQ(model.step(), 6);
      model.freeze({"dense"});
      model.compile(testing::settings("sgd"));
      const auto frozen = weights_of(model).begin()->second.clone();
      fit.epochs = 3;
      EXPECT_EQ(model.fit(sixty().repeat(), fit).epoch.size(), 3);
      EXPECT_EQ(model.step(), 15);
      EXPECT_TRUE(frozen.equal(weights_of(model).begin()->second));
    };
    if (rank == 0) return whole();
    EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
  });
}

// Worker 1 is lost, and comes again as the process of another program.
class ElasticFitNewcomerTest : public ElasticFitTest,
                               public ::testing::WithParamInterface<const char*> {};

TEST_P(ElasticFitNewcomerTest, ThatDiffersIsRefusedAlone) {
  constexpr int64_t kEpochs = 200;
  const std::string differs = GetParam();
  const LocalCluster cluster(2);
  std::atomic<int> groups{0};
  std::atomic<bool> refused{false};
  ::testing::internal::CaptureStderr();
  muster::testing::run_ranks(2, [&](int rank) {
    const auto script = std::make_shared<Scripted>();
    script->at_begin = [&] { groups += rank == 0 ? 1 : 0; };
    script->at_step = [&](int64_t step) {
      if (rank == 1 && step == 3) script->be_lost();
      // Steps in which the newcomer is noticed.
      if (rank == 0 && !refused) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    };
    const auto train = [&](Model& model, int64_t epochs, std::optional<Dataset> validation = {}) {
      return model
          .fit(sixty(), {.epochs = epochs,
                         .validation_data = std::move(validation),
                         .callbacks = {script},
                         .verbose = Verbose::kSilent})
          .epoch.size();
    };
    {
      Model model = worker(cluster, rank);
      if (rank == 0 && differs == "call") {
        EXPECT_EQ(train(model, 2), 2);
      }
      if (rank == 0) {
        EXPECT_EQ(train(model, kEpochs), kEpochs);
        EXPECT_TRUE(refused);
        return;
      }
      const int64_t epochs = differs == "call" ? 2 : kEpochs;
      EXPECT_EQ(error_of([&] { train(model, epochs); }).kind(), ErrorKind::kUnavailable);
    }
    await([&] { return groups >= (differs == "call" ? 3 : 2); });
    const Layer layer =
        differs == "model" ? Sequential({Dense(3), Dense(2)}) : testing::two_layers();
    Model model =
        worker(cluster, rank, layer, testing::settings(differs == "settings" ? "sgd" : "adam"));
    const Error error = error_of([&] {
      train(model, differs == "epochs" ? kEpochs + 1 : kEpochs,
            differs == "validation" ? std::optional(rows_of(12).batch(12)) : std::nullopt);
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(
        error.message(),
        HasSubstr(differs == "model"        ? "its model differs"
                  : differs == "settings"   ? "the optimizer: SGD"
                  : differs == "epochs"     ? "epochs: 201, and was 200"
                  : differs == "validation" ? "validation_data: set, and was unset"
                                            : "a worker that joins an elastic run with fit() "
                                              "number 1, where the others are in fit() number 2"));
    refused = true;
  });
  log::flush();
  const std::string told = ::testing::internal::GetCapturedStderr();
  const std::string note = "are without the examples that a lost worker had counted";
  const size_t of_the_loss = told.find(note);
  EXPECT_NE(of_the_loss, std::string::npos) << told;
  EXPECT_EQ(told.find(note, of_the_loss + 1), std::string::npos) << "the newcomer: " << told;
}

INSTANTIATE_TEST_SUITE_P(Differences, ElasticFitNewcomerTest,
                         ::testing::Values("settings", "model", "call", "epochs", "validation"));

TEST_F(ElasticFitTest, DataThatEachWorkerReadsByItselfIsRefused) {
  const LocalCluster cluster(2);
  muster::testing::run_ranks(2, [&](int rank) {
    Model model = worker(cluster, rank);
    const Error error = error_of(
        [&] { model.fit(rows_of(60).shard(2, rank).batch(6), {.verbose = Verbose::kSilent}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("not supported: an elastic run with data"));
  });
}

TEST_F(ElasticFitTest, ALostChiefEndsTheRunAndIsNamed) {
  const LocalCluster cluster(2);
  muster::testing::run_ranks(2, [&](int rank) {
    Model model = worker(cluster, rank);
    const auto script = std::make_shared<Scripted>();
    script->at_step = [&](int64_t step) {
      if (rank == 0 && step == 5) script->be_lost();
    };
    const Error error = error_of([&] {
      model.fit(sixty(), {.epochs = 100, .callbacks = {script}, .verbose = Verbose::kSilent});
    });
    if (rank == 0) return;
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.message(), HasSubstr("worker 0 "));
  });
}

}  // namespace
}  // namespace muster::inline v0_1::keras
