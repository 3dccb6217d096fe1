// Invariants of training on several workers, each a thread with its own TF_CONFIG and its own
// Estimator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::examples;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::same_bits;
using testing::two_layers;

RunConfig config_of(const std::string& model_dir, const Environment& environment) {
  return quiet_config(model_dir, distribute::multi_worker_mirrored(), environment);
}

// Runs `body` on n workers that share a model_dir; one worker is a run without TF_CONFIG.
void on_workers(int n, const std::string& model_dir, const ModelFn& model_fn, const json& params,
                const std::function<void(Estimator&, int)>& body, bool chief = false) {
  const LocalCluster cluster(n, chief);
  testing::run_ranks(n, [&](int rank) {
    Estimator estimator(
        model_fn, config_of(model_dir, n == 1 ? Environment() : cluster.environment(rank)), params);
    body(estimator, rank);
  });
}

// --- promise 2: n replicas with batch b compute the same as one with n*b ---

struct WorkersCase {
  std::string optimizer{};
  int64_t rows{};  // 60: full batches; 53: a ragged last one; 25: replicas without data in the last
                   // step
  int64_t epochs{};
};

class OneLawTest : public ::testing::TestWithParam<WorkersCase> {};

TEST_P(OneLawTest, ReplicasComputeWhatOneComputes) {
  const WorkersCase law = GetParam();
  TempDirectory directory;
  const json params{{"optimizer", law.optimizer}};
  const InputFn input = [&] {
    return examples(law.rows).shuffle(law.rows).repeat(law.epochs).global_batch(12);
  };
  for (int n : {1, 2, 3}) {
    on_workers(n, directory / std::to_string(n), two_layers, params,
               [&](Estimator& estimator, int) { estimator.train(input, {.max_steps = 20}); });
  }
  const Checkpoint one = latest(directory / "1");
  for (int n : {2, 3}) {
    const Checkpoint many = latest(directory / std::to_string(n));
    EXPECT_EQ(many.global_step, one.global_step);
    EXPECT_LT(largest_difference(many, one), 1e-5) << n << " workers";
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, OneLawTest,
                         ::testing::Values(WorkersCase{"sgd", 60, -1},
                                           WorkersCase{"momentum", 60, -1},
                                           WorkersCase{"adam", 60, -1}, WorkersCase{"sgd", 53, 2},
                                           WorkersCase{"adam", 25, 3},
                                           WorkersCase{"clipped", 53, 2},
                                           WorkersCase{"sgd", 1, 3}));

TEST(MultiWorkerTest, RoundsDoNotStraddleEpochsWhenRepeatFollowsBatch) {
  TempDirectory directory;
  const InputFn input = [] { return examples(25).global_batch(12).repeat(4); };
  for (int n : {1, 3}) {
    on_workers(n, directory / std::to_string(n), two_layers, json::object(),
               [&](Estimator& estimator, int) { estimator.train(input, {.max_steps = 20}); });
  }
  EXPECT_EQ(latest(directory / "3").global_step, 12);
  EXPECT_LT(largest_difference(latest(directory / "3"), latest(directory / "1")), 1e-5);
}

// An input function that shards itself, with unequal numbers of batches: all end together, nothing
// is dropped, and every example has the weight it has in one big batch.
TEST(MultiWorkerTest, UnequalNumbersOfBatchesEndTogether) {
  TempDirectory directory;
  std::mutex mutex;
  std::multiset<int64_t> seen;
  const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    if (torch::GradMode::is_enabled()) {
      std::lock_guard lock(mutex);
      for (int64_t i = 0; i < features["id"].size(0); ++i)
        seen.insert(features["id"][i].item<int64_t>());
    }
    return two_layers(features, labels, mode, context);
  };
  // Worker 0 has 25 examples (5 batches), worker 1 has 5 (1 batch), worker 2 none at all.
  const InputFn input = [](const InputContext& context) {
    const int64_t id = context.input_pipeline_id;
    const Dataset all = examples(30);
    return (id == 0 ? all.take(25) : id == 1 ? all.skip(25) : all.take(0)).batch(5);
  };
  on_workers(3, directory / "m", recording, json::object(), [&](Estimator& estimator, int) {
    const TrainResult result = estimator.train(input, {.max_steps = 100});
    EXPECT_EQ(result.global_step, 5);
    EXPECT_TRUE(result.end_of_input);
  });
  EXPECT_EQ(seen.size(), 30u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 30u);
}

// --- promises 4 and 5: resume ---

TEST(MultiWorkerTest, ResumeIsBitForBit) {
  TempDirectory directory;
  const json params{{"optimizer", "adam"}, {"dropout", 0.2}};
  const InputFn input = [] {
    return examples(50).shuffle(50).repeat().global_batch(14).prefetch();
  };
  const auto train = [&](const std::string& model_dir, int64_t end) {
    on_workers(2, model_dir, two_layers, params,
               [&](Estimator& estimator, int) { estimator.train(input, {.max_steps = end}); });
  };
  train(directory / "whole", 23);
  for (int64_t stop : {7, 10}) {
    const std::string model_dir = directory / ("parts" + std::to_string(stop));
    train(model_dir, stop);
    train(model_dir, 23);
    EXPECT_TRUE(same_bits(latest(model_dir), latest(directory / "whole")))
        << "stopped after " << stop;
  }
}

TEST(MultiWorkerTest, OneWorkerThenTwoThenOneSeesEachExampleOnce) {
  TempDirectory directory;
  std::mutex mutex;
  std::vector<int64_t> seen;
  const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    if (torch::GradMode::is_enabled()) {
      std::lock_guard lock(mutex);
      for (int64_t i = 0; i < features["id"].size(0); ++i)
        seen.push_back(features["id"][i].item<int64_t>());
    }
    return two_layers(features, labels, mode, context);
  };
  const InputFn input = [] {
    return examples(30).shuffle(30).repeat(2).global_batch(6).prefetch();
  };
  for (const auto& [workers, end] :
       {std::pair{1, 2}, std::pair{2, 5}, std::pair{3, 7}, std::pair{1, 10}}) {
    on_workers(workers, directory / "m", recording, json::object(),
               [&](Estimator& estimator, int) { estimator.train(input, {.max_steps = end}); });
  }
  ASSERT_EQ(seen.size(), 60u);
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(std::set<int64_t>(seen.begin() + epoch * 30, seen.begin() + (epoch + 1) * 30).size(),
              30u);
  }
}

TEST(MultiWorkerTest, PipelinesThatShardThemselvesRefuseAnotherNumberOfWorkers) {
  TempDirectory directory;
  const InputFn input = [](const InputContext& context) {
    return examples(30)
        .shard(context.num_input_pipelines, context.input_pipeline_id)
        .repeat()
        .batch(3);
  };
  const auto train = [&](int workers, int64_t end) {
    on_workers(workers, directory / "m", two_layers, json::object(),
               [&](Estimator& estimator, int) { estimator.train(input, {.max_steps = end}); });
  };
  train(2, 4);
  train(2, 8);
  try {
    train(3, 12);
    ADD_FAILURE() << "three workers continued what two began";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("the positions of 2 workers"), HasSubstr("restart_input")));
  }
  // With the weights and without the input it continues; after that the input of a single run is
  // exact again.
  const auto restart = [&](bool restart_input, int64_t end) {
    const LocalCluster cluster(3, /*chief=*/false);
    testing::run_ranks(3, [&](int rank) {
      RunConfig config = config_of(directory / "m", cluster.environment(rank));
      config.restart_input = restart_input;
      Estimator(two_layers, config, json::object()).train(input, {.max_steps = end});
    });
    EXPECT_EQ(latest(directory / "m").global_step, end);
  };
  restart(true, 12);
  restart(false, 16);
}

// --- evaluation, roles, disagreement ---

TEST(MultiWorkerTest, TheChiefEvaluatesAndTheOthersWait) {
  TempDirectory directory;
  std::atomic<int> results{0};
  on_workers(
      3, directory / "m", two_layers, json{{"optimizer", "adam"}},
      [&](Estimator& estimator, int rank) {
        const auto result = train_and_evaluate(
            estimator,
            {.input_fn = [] { return examples(60).shuffle(60).repeat().global_batch(12); },
             .max_steps = 25},
            {.input_fn = [] { return examples(20).batch(10); }, .steps = std::nullopt});
        EXPECT_EQ(result.has_value(), rank == 0);
        if (result) {
          EXPECT_EQ(result->at("global_step"), 25);
          ++results;
        }
      },
      /*chief=*/true);
  EXPECT_EQ(results, 1);
}

// Calls `fn` while the checkpoint of step 10 is being saved.
class WhileSaving : public Hook {
 public:
  explicit WhileSaving(std::function<void()> fn) : fn_(std::move(fn)) {}
  void after_save(int64_t step, const std::string&) override {
    if (step == 10) fn_();
  }

 private:
  const std::function<void()> fn_;
};

TEST(MultiWorkerTest, ASaveMayTakeLongerThanACollective) {
  // The invariant concerns elapsed time: a save that takes twice the patience. With two replicas in
  // each worker, alone and not.
  for (const int workers : {1, 2}) {
    TempDirectory directory;
    const LocalCluster cluster(2);
    testing::run_ranks(workers, [&](int rank) {
      Estimator estimator(two_layers,
                          quiet_config(directory / "m",
                                       distribute::multi_worker_mirrored(
                                           {.local_replicas = 2, .timeout = Seconds(2)}),
                                       workers == 1 ? Environment() : cluster.environment(rank)));
      const auto result =
          estimator.train([] { return examples(60).repeat().global_batch(12); },
                          {.max_steps = 12, .hooks = {std::make_shared<WhileSaving>([] {
                                              std::this_thread::sleep_for(std::chrono::seconds(4));
                                            })}});
      EXPECT_EQ(result.global_step, 12);
    });
  }
}

TEST(MultiWorkerTest, ASaveThatTakesTooLongIsNamed) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  std::atomic<int> told{0};
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(
        two_layers, quiet_config(directory / "m",
                                 distribute::multi_worker_mirrored({.save_timeout = Seconds(3)}),
                                 cluster.environment(rank)));
    const auto hook = std::make_shared<WhileSaving>([&] {
      // A save that lasts until the other worker has given up; a minute at most.
      for (int i = 0; told == 0 && i < 6000; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
    const Error error = error_of([&] {
      estimator.train([] { return examples(60).repeat().global_batch(12); },
                      {.max_steps = 12, .hooks = {hook}});
    });
    EXPECT_THAT(error.message(), HasSubstr("worker 0 failed at step 10 (saving)"));
    EXPECT_THAT(error.message(), HasSubstr("saving a checkpoint took more than"));
    ++told;
  });
  EXPECT_EQ(told, 2);
}

TEST(MultiWorkerTest, DifferentModelsAreNamedOnEveryWorker) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  std::atomic<int> named{0};
  testing::run_ranks(2, [&](int rank) {
    const ModelFn wider = [rank](const Features& features, const Labels& labels, Mode,
                                 ModelContext& context) {
      Tensor logits = context.model("net", [rank] { return Dense(rank + 2); })(features["x"]);
      Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
      return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
    };
    Estimator estimator(wider, config_of(directory / "m", cluster.environment(rank)));
    try {
      estimator.train([] { return examples(12).global_batch(6); }, {.max_steps = 2});
      ADD_FAILURE() << "worker " << rank << " trained";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("net/dense/kernel"));
      ++named;
    }
  });
  EXPECT_EQ(named, 2);
}

// An exception in the code of one worker is reported to the others at once and with its cause.
TEST(MultiWorkerTest, AnExceptionOnOneWorkerReachesTheOthers) {
  class Throw : public Hook {
   public:
    explicit Throw(bool saving) : saving_(saving) {}
    void after_step(const StepInfo& info) override {
      if (!saving_ && info.global_step == 3) throw std::runtime_error("the hook broke");
    }
    void after_save(int64_t step, const std::string&) override {
      if (saving_ && step == 10) throw std::runtime_error("the hook broke");
    }

   private:
    bool saving_;
  };
  const InputFn input = [] { return examples(60).repeat().global_batch(12); };
  const struct {
    const char* where;
    int rank;  // that fails
    const char* message;
  } cases[] = {{"model_fn", 1, "the model broke"}, {"model_fn", 0, "the model broke"},
               {"hook", 1, "the hook broke"},      {"after_save", 0, "the hook broke"},
               {"evaluation", 0, "no such data"},  {"input", 1, "no such data"}};
  for (const auto& fault : cases) {
    SCOPED_TRACE(fmt::format("{} on worker {}", fault.where, fault.rank));
    const std::string where = fault.where;
    TempDirectory directory;
    const LocalCluster cluster(2);
    std::atomic<int> told{0};
    testing::run_ranks(2, [&](int rank) {
      const bool here = rank == fault.rank;
      const ModelFn model = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
        if (here && where == "model_fn" && context.global_step() == 2)
          throw std::runtime_error("the model broke");
        return two_layers(features, labels, mode, context);
      };
      const InputFn broken = []() -> Dataset { throw not_found("no such data"); };
      std::vector<std::shared_ptr<Hook>> hooks;
      if (here && (where == "hook" || where == "after_save"))
        hooks.push_back(std::make_shared<Throw>(where == "after_save"));
      Estimator estimator(model, config_of(directory / "m", cluster.environment(rank)));
      try {
        train_and_evaluate(estimator,
                           {.input_fn = here && where == "input" ? broken : input,
                            .max_steps = 25,
                            .hooks = hooks},
                           {.input_fn = where == "evaluation" ? broken : input, .steps = 1});
        ADD_FAILURE() << "worker " << rank << " went on";
      } catch (const std::exception& error) {
        EXPECT_THAT(error.what(), HasSubstr(fault.message)) << "worker " << rank;
        if (!here) {
          EXPECT_THAT(error.what(), HasSubstr(fmt::format("worker {}", fault.rank)));
        }
        ++told;
      }
    });
    EXPECT_EQ(told, 2);
  }
}

// A process may train again and again: every call is a group of its own.
TEST(MultiWorkerTest, TrainingManyTimesInOneProcess) {
  TempDirectory directory;
  on_workers(2, directory / "m", two_layers, json::object(), [&](Estimator& estimator, int) {
    for (int64_t end = 1; end <= 6; ++end) {
      const TrainResult result = estimator.train(
          [] { return examples(24).repeat().global_batch(12); }, {.max_steps = end});
      EXPECT_EQ(result.global_step, end);
      EXPECT_EQ(result.steps, 1);
    }
  });
}

TEST(MultiWorkerTest, ANonFiniteLossOfOneWorkerEndsAll) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  std::atomic<int> ended{0};
  testing::run_ranks(2, [&](int rank) {
    const ModelFn poisoned = [rank](const Features& features, const Labels& labels, Mode mode,
                                    ModelContext& context) {
      if (rank == 1 && context.global_step() == 12) features["x"][0][0] = std::nan("");
      return two_layers(features, labels, mode, context);
    };
    Estimator estimator(poisoned, config_of(directory / "m", cluster.environment(rank)));
    try {
      estimator.train([] { return examples(60).repeat().global_batch(12); }, {.max_steps = 30});
      ADD_FAILURE() << "worker " << rank << " went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), rank == 1 ? ErrorKind::kNonFinite : ErrorKind::kPeerLost)
          << error.what();
      EXPECT_THAT(error.what(), HasSubstr("at step 13: the batch's feature \"x\" holds nan"));
      if (rank == 0) {
        EXPECT_THAT(error.what(), HasSubstr("worker 1 failed"));
      }
      ++ended;
    }
  });
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(latest(directory / "m").global_step, 10);
}

}  // namespace
}  // namespace muster::inline v0_1
