// Workers of one machine that write one checkpoint together: as small states are divided here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <optional>

#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/distribute/start_options.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/batch_normalization.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/train/save_parts.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::LocalCluster;
using testing::loss_of;
using testing::quiet_config;
using testing::run_ranks;
using testing::same_bits;

constexpr int64_t kLargest = int64_t{1} << 40;  // bytes, more than any state here

// Each replica has statistics of its own, which stay with the chief.
EstimatorSpec normalized(const Features& features, const Labels& labels, Mode,
                         ModelContext& context) {
  auto model = context.model("net", [] {
    return Sequential({Dense(16, {.activation = activations::relu}),
                       BatchNormalization({.momentum = 0.9}), Dense(2)});
  });
  const Tensor loss = loss_of(model(features["x"]), labels);
  return EstimatorSpec::train(
      loss, context.optimizer(optim::adam({.learning_rate = 0.01})).minimize(loss));
}

InputFn batches() {
  return [] { return examples(60).shuffle(60).repeat().global_batch(12); };
}

// Fails to write the part with this name in it, for lack of space.
class PartlyFullFiles final : public FaultFileSystem {
 public:
  explicit PartlyFullFiles(std::string name)
      : FaultFileSystem(local_file_system()), name_(std::move(name)) {}
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    if (path.find(name_) != std::string::npos)
      return Error(ErrorKind::kInvalidArgument, "cannot write '" + path + "': No space left");
    return FaultFileSystem::open_staged(path);
  }

 private:
  const std::string name_;
};

class SavePartsRunTest : public ::testing::Test {
 protected:
  ~SavePartsRunTest() override { internal::divide_states_from(before_); }

  struct Run {
    std::optional<int64_t> max_failed_saves{};
    std::string full{};  // a part that worker 1 cannot write
  };
  // Trains until `end`, with a save every two steps. Returns the error of each worker, if any.
  std::vector<std::optional<Error>> train(int workers, const std::string& name, int64_t end,
                                          const Run& run, const ModelFn& model = normalized) {
    const LocalCluster cluster(workers);
    std::vector<std::optional<Error>> errors(static_cast<size_t>(workers));
    run_ranks(workers, [&](int rank) {
      PartlyFullFiles files(rank == 1 && !run.full.empty() ? run.full : "nothing is called so");
      RunConfig config = quiet_config(
          directory_ / name,
          workers == 1 ? distribute::one_device() : distribute::multi_worker_mirrored(),
          workers == 1 ? Environment() : cluster.environment(rank));
      config.save_checkpoints_steps = 2;
      config.max_failed_saves = run.max_failed_saves;
      if (!run.full.empty()) config.fs = &files;
      try {
        Estimator(model, config).train(batches(), {.max_steps = end});
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error;
      }
    });
    return errors;
  }
  std::vector<std::optional<Error>> train(int workers, const std::string& name, int64_t end) {
    return train(workers, name, end, {});
  }

  std::string path(const std::string& name, int64_t step) const {
    return directory_ / (name + "/model.ckpt-" + std::to_string(step));
  }
  // How many parts a checkpoint has.
  size_t parts_of(const std::string& name, int64_t step) const {
    return open_checkpoint(local_file_system(), path(name, step))->header().parts.files.size();
  }
  Checkpoint read(const std::string& name, int64_t step) const {
    return read_checkpoint(local_file_system(), path(name, step));
  }
  int files_of(const std::string& name, int64_t step) const {
    int count = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory_ / name))
      count += file.path().string().find("ckpt-" + std::to_string(step) + ".") != std::string::npos;
    return count;
  }
  // The newest checkpoint is the one of `step`.
  void forget_after(const std::string& name, int64_t step, int64_t last) const {
    for (int64_t each = step + 1; each <= last; ++each)
      std::filesystem::remove(path(name, each) + ".safetensors");
    std::filesystem::remove(directory_ / (name + "/checkpoint"));
  }

  TempDirectory directory_;
  const int64_t before_ = internal::divide_states_from(1);
};

TEST_F(SavePartsRunTest, HoldTheBitsOfOneFileAndAnyNumberOfWorkersContinues) {
  for (const std::string name : {"whole", "parts"}) {
    internal::divide_states_from(name == "parts" ? 1 : kLargest);
    for (const auto& error : train(3, name, 8)) EXPECT_FALSE(error);
  }
  for (const int64_t step : {2, 4, 6, 8}) {
    EXPECT_EQ(parts_of("parts", step), 3U);
    EXPECT_EQ(parts_of("whole", step), 0U);
    const Checkpoint parts = read("parts", step), whole = read("whole", step);
    EXPECT_TRUE(same_bits(parts, whole)) << step;
    EXPECT_TRUE(parts.tensors.contains("net/batch_normalization/moving_mean/replicas"));
    EXPECT_EQ(parts.inputs, whole.inputs);
  }
  EXPECT_EQ(parts_of("parts", 0), 0U);  // the run waits for its first save
  for (const int workers : {1, 2, 3}) {
    for (const std::string name : {"whole", "parts"}) {
      internal::divide_states_from(name == "parts" ? 1 : kLargest);
      const std::string copy = name + std::to_string(workers);
      std::filesystem::copy(directory_ / name, directory_ / copy);
      forget_after(copy, 4, 8);
      for (const auto& error : train(workers, copy, 8)) EXPECT_FALSE(error);
    }
    EXPECT_TRUE(same_bits(latest(directory_ / ("parts" + std::to_string(workers))),
                          latest(directory_ / ("whole" + std::to_string(workers)))))
        << workers;
  }
}

TEST_F(SavePartsRunTest, APartThatCannotBeWrittenFailsTheSaveAndTheRunContinues) {
  for (const auto& error : train(2, "run", 8, {.max_failed_saves = 1, .full = "ckpt-4.part-1"}))
    EXPECT_FALSE(error) << error->message();
  EXPECT_EQ(files_of("run", 4), 0);  // the chief's part, too
  EXPECT_EQ(parts_of("run", 6), 2U);
  EXPECT_EQ(parts_of("run", 2), 2U);
}

TEST_F(SavePartsRunTest, APartThatCannotBeWrittenIsAnErrorWithTheWorkerFileAndReason) {
  const auto errors = train(2, "run", 8, {.max_failed_saves = 0, .full = "ckpt-4.part-1"});
  ASSERT_TRUE(errors[0]);
  EXPECT_THAT(errors[0]->message(),
              AllOf(HasSubstr("worker 1 could not write its part of the checkpoint of step 4"),
                    HasSubstr("run/model.ckpt-4.part-1-of-2."), HasSubstr("No space left")));
  EXPECT_EQ(latest(directory_ / "run").global_step, 2);
}

// The coordinator keeps a limited number of bytes, and the table of a part with many tensors is
// long.
TEST_F(SavePartsRunTest, AnAnswerThatIsNotKeptFailsTheSave) {
  constexpr int kTensors = 40'000;
  std::map<std::string, Tensor> state;
  for (int i = 0; i < kTensors; ++i) state["tensor" + std::to_string(i)] = torch::zeros({1});
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const auto replicas = distribute::multi_worker_mirrored()->start_replicas(
        {.cluster = cluster::resolve_cluster(cluster.environment(rank),
                                             {.worker_zero_may_be_chief = true})});
    distribute::Replica& replica = *replicas.front();
    SaveParts parts(replica);
    ASSERT_TRUE(parts.divide(state, directory_ / "run", nullptr));
    if (rank == 0) {
      distribute::ServedState::Cut cut;
      parts.begin_chief(4, parts.share(state))(cut);
      ASSERT_TRUE(cut.failed);
      EXPECT_EQ(cut.failed->kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(cut.failed->message(),
                  AllOf(HasSubstr("worker 1 could not write its part of the checkpoint of step 4"),
                        HasSubstr("the keys that the tasks share would be")));
    } else {
      const auto fill = [&] {
        constexpr size_t kBytes = 15 << 20;  // less than the longest message
        for (int i = 0;; ++i)
          replica.group().mailbox()->put("full" + std::to_string(i), std::string(kBytes, ' '));
      };
      EXPECT_EQ(error_of(fill).kind(), ErrorKind::kUnavailable);
      parts.begin(4, parts.share(state), "")();
    }
    replica.group().finish();
  });
}

// The variable "z" is infinite after the first step, and the loss is not; it is in the last share.
EstimatorSpec diverging(const Features&, const Labels&, Mode, ModelContext& context) {
  const auto variable = [&](const std::string& name) {
    return context.variable({.name = name,
                             .shape = {64},
                             .initializer = [](const Shape& shape, DType dtype, RandomKey) {
                               return torch::zeros(shape, torch::TensorOptions(dtype));
                             }});
  };
  const Tensor a = variable("a"), z = variable("z");
  const Tensor loss = a.sum() + at::where(z.isfinite(), z, 0).sum() * 1e38;
  return EstimatorSpec::train(loss,
                              context.optimizer(optim::sgd({.learning_rate = 1e3})).minimize(loss));
}

TEST_F(SavePartsRunTest, AValueThatIsNotFiniteInAnotherWorkersShareIsNotSaved) {
  const auto errors = train(2, "run", 8, {}, diverging);
  ASSERT_TRUE(errors[0]);
  EXPECT_EQ(errors[0]->kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(errors[0]->message(), AllOf(HasSubstr("after step 2 the variable z holds"),
                                          HasSubstr("nothing was saved")));
  EXPECT_EQ(files_of("run", 2), 0);
}

TEST_F(SavePartsRunTest, ALoopByHandHasPartsToo) {
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const auto strategy = distribute::multi_worker_mirrored();
    const auto scope = strategy->scope({.seed = 5, .environment = cluster.environment(rank)});
    const Layer model = Sequential({Dense(8), Dense(2)});
    const auto adam = optim::adam({.learning_rate = 0.05});
    const std::string model_dir = directory_ / "loop";
    for (const auto& batch : strategy->distribute(examples(48).batch(12))) {
      strategy->run(
          [&](const Features& features, const Labels& labels) {
            adam.minimize(loss_of(model(features["x"]), labels));
          },
          batch);
      scope.save(model_dir, {.asynchronous = true});
    }
    scope.save(model_dir);
  });
  EXPECT_EQ(parts_of("loop", 2), 2U);
  EXPECT_EQ(parts_of("loop", 4), 0U);
  EXPECT_TRUE(read("loop", 2).tensors.contains("Adam/m/dense/kernel"));
}

}  // namespace
}  // namespace muster::inline v0_1
