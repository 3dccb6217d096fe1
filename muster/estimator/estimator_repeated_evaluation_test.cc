#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <filesystem>
#include <map>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using testing::examples;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::two_layers;

// The local files, and how often a checkpoint was opened for reading.
class CountedReads : public FileSystem {
 public:
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
    if (path.ends_with(".safetensors")) ++checkpoints;
    return files_.open_reader(path);
  }
  Result<FileInfo> info(const std::string& path) override { return files_.info(path); }
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override {
    return files_.open_writer(path);
  }
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    return files_.open_staged(path);
  }
  Result<std::vector<std::string>> list_directory(const std::string& path) override {
    return files_.list_directory(path);
  }
  Status make_directories(const std::string& path) override {
    return files_.make_directories(path);
  }
  Status remove(const std::string& path) override { return files_.remove(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return files_.rename(from, to);
  }

  int64_t checkpoints = 0;

 private:
  FileSystem& files_ = local_file_system();
};

const InputFn kFortyRows = [] { return examples(40).batch(8); };

int64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(RepeatedEvaluationTest, TwoHundredHoldMemoryAndDescriptors) {
  TempDirectory directory;
  Estimator estimator(two_layers, quiet_config(directory / "m"));
  estimator.train(shuffled_batches(40, 8), {.steps = 2});
  for (int i = 0; i < 20; ++i) estimator.evaluate(kFortyRows);  // made only once
  const size_t heap = mallinfo2().uordblks;
  const int64_t descriptors = open_descriptors();
  const EvalResult first = estimator.evaluate(kFortyRows);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(estimator.evaluate(kFortyRows), first);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_LT(mallinfo2().uordblks, heap + 20'000);  // 100 bytes an evaluation would show
}

TEST(RepeatedEvaluationTest, BuildsOnceAndReadsACheckpointOnce) {
  TempDirectory directory;
  CountedReads files;
  RunConfig config = quiet_config(directory / "m");
  Estimator(two_layers, config).train(shuffled_batches(40, 8), {.steps = 2});
  config.fs = &files;
  int64_t calls = 0;
  const ModelFn counted = [&](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    ++calls;
    return two_layers(features, labels, mode, context);
  };
  Estimator estimator(counted, config);
  const EvalResult first = estimator.evaluate(kFortyRows);
  EXPECT_EQ(calls, 1 + 5);  // builds, then a call for each batch
  const int64_t reads = files.checkpoints;
  EXPECT_GE(reads, 1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(estimator.evaluate(kFortyRows), first);
  EXPECT_EQ(calls, 1 + 11 * 5);
  EXPECT_EQ(files.checkpoints, reads);

  // Another one is read, of a later step and of the same.
  Estimator(two_layers, quiet_config(directory / "m"))
      .train(shuffled_batches(40, 8), {.max_steps = 3});
  const EvalResult later = estimator.evaluate(kFortyRows);
  EXPECT_EQ(later.at("global_step"), 3);
  EXPECT_NE(later.at("loss"), first.at("loss"));
  EXPECT_EQ(calls, 1 + 12 * 5);
  EXPECT_EQ(files.checkpoints, 2 * reads);
  Checkpoint changed = testing::latest(directory / "m");
  changed.tensors.at("net/dense_1/bias")[0].add_(1);
  CheckpointManager(directory / "m").save(changed);
  const EvalResult replaced = estimator.evaluate(kFortyRows);
  EXPECT_EQ(replaced.at("global_step"), 3);
  EXPECT_NE(replaced.at("loss"), later.at("loss"));
  EXPECT_EQ(files.checkpoints, 3 * reads);

  // An older one by its name, and the newest again.
  const std::string second = directory / "m/model.ckpt-2";
  EXPECT_EQ(estimator.evaluate(kFortyRows, {.checkpoint_path = second}), first);
  const int64_t read = files.checkpoints;
  EXPECT_EQ(estimator.evaluate(kFortyRows, {.checkpoint_path = second}), first);
  EXPECT_EQ(files.checkpoints, read);
  EXPECT_EQ(estimator.evaluate(kFortyRows), replaced);
}

// A model function that writes to a variable begins with the checkpoint's value each time.
TEST(RepeatedEvaluationTest, ValuesThatTheModelWroteAreTakenBack) {
  TempDirectory directory;
  const ModelFn counting = [](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    const Tensor seen = context.variable(
        {.name = "seen",
         .shape = {},
         .initializer = [](const Shape& shape, DType dtype,
                           RandomKey) { return torch::zeros(shape, torch::TensorOptions(dtype)); },
         .trainable = false});
    if (mode == Mode::kEval) {
      Tensor(seen).add_(1);
      spec.eval_metrics.emplace("seen", metrics::mean(seen.clone().view({1})));
    }
    return spec;
  };
  Estimator estimator(counting, quiet_config(directory / "m"));
  estimator.train(shuffled_batches(40, 8), {.steps = 2});
  const EvalResult first = estimator.evaluate(kFortyRows);
  EXPECT_EQ(first.at("seen"), 3);  // the mean of 1 to 5
  EXPECT_EQ(estimator.evaluate(kFortyRows), first);
}

}  // namespace
}  // namespace muster::inline v0_1
