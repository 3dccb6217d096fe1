// Checkpoints of which each parameter server writes and reads its own part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <memory>

#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint_parts.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/files/testing/memory_store.h"
#include "muster/layers/embedding.h"
#include "muster/ps/parameter_server.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::two_layers;

InputFn endless() {
  return [] { return examples(60).shuffle(60).repeat().batch(10); };
}

// A chief and `servers` parameter servers, whose configurations `adapt` may change.
struct ServedTasks {
  int servers = 1;
  distribute::ParameterServerOptions options = {};
  std::function<void(RunConfig& config, bool serves, int index)> adapt = {};
  std::shared_ptr<Hook> hook = {};  // on the chief
};

void train_tasks(const ServedTasks& tasks, const std::string& model_dir, const ModelFn& model_fn,
                 int64_t max_steps) {
  const testing::LocalCluster cluster(1, /*chief=*/true, tasks.servers);
  testing::run_ranks(1 + tasks.servers, [&](int task) {
    const bool serves = task > 0;
    RunConfig config =
        quiet_config(model_dir, distribute::parameter_server(tasks.options),
                     serves ? cluster.server_environment(task - 1) : cluster.environment(0));
    if (tasks.adapt) tasks.adapt(config, serves, task - 1);
    TrainOptions how{.max_steps = max_steps};
    if (tasks.hook && !serves) how.hooks = {tasks.hook};
    Estimator(model_fn, config).train(endless(), how);
  });
}

// A dense weight, and a table of which a step uses few rows.
EstimatorSpec table_and_dense(const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
  const auto table =
      context.model("net", [] { return Sequential({Embedding(40, 4, {.row_sparse = true})}); });
  const auto top = context.model("top", [] { return Dense(2); });
  const Tensor logits = top(table(features["id"].remainder(40)));
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  const Tensor loss = testing::loss_of(logits, labels);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  return EstimatorSpec::train(
      loss, context.optimizer(optim::adam({.learning_rate = 0.01})).minimize(loss));
}

void train_here(const std::string& model_dir, int64_t max_steps) {
  Estimator(table_and_dense, quiet_config(model_dir)).train(endless(), {.max_steps = max_steps});
}

void train_there(const std::string& model_dir, int servers, int64_t max_steps,
                 const decltype(ServedTasks::adapt)& adapt = {}) {
  train_tasks(
      {.servers = servers, .options = {.partitioner = plan::Partitioner::fixed(3)}, .adapt = adapt},
      model_dir, table_and_dense, max_steps);
}

// The names of the parts of the newest checkpoint.
std::vector<std::string> parts_of_latest(const std::string& model_dir) {
  const auto reader = open_checkpoint(local_file_system(), *CheckpointManager(model_dir).latest());
  std::vector<std::string> names;
  for (const auto& part : reader->header().parts.files) names.push_back(part.name);
  return names;
}

size_t files_of_parts(const std::string& model_dir) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(model_dir))
    count += checkpoint_part_step(entry.path().filename()) >= 0 ? 1 : 0;
  return count;
}

void damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-3, std::ios::end);
  file.put('\x5a');
  ASSERT_TRUE(file.good());
}

// What the servers do not see: their model_dir is another one.
void look_away(RunConfig& config, bool serves, int) {
  if (serves) config.model_dir += "_elsewhere";
}

TEST(ServerCheckpointsTest, EachServerWritesItsPart) {
  TempDirectory directory;
  train_here(directory / "alone", 25);
  train_there(directory / "served", 2, 25);
  EXPECT_EQ(parts_of_latest(directory / "served").size(), 2u);
  // Of 10, 20 and 25, and of the beginning.
  EXPECT_EQ(files_of_parts(directory / "served"), 8u);
  EXPECT_TRUE(same_bits(latest(directory / "served"), latest(directory / "alone")));
}

// The files of this machine; those of step 10 wait until the test opens them.
class HeldFiles final : public FaultFileSystem {
 public:
  HeldFiles() : FaultFileSystem(local_file_system()) {}

  void open() { open_.set_value(); }
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    if (path.find("ckpt-10.") != std::string::npos) opened_.wait();
    return FaultFileSystem::open_staged(path);
  }

 private:
  std::promise<void> open_;
  const std::shared_future<void> opened_{open_.get_future()};
};

class AtStep final : public Hook {
 public:
  AtStep(int64_t step, std::function<void()> call) : step_(step), call_(std::move(call)) {}
  void after_step(const StepInfo& info) override {
    if (info.global_step == step_) call_();
  }

 private:
  const int64_t step_;
  const std::function<void()> call_;
};

// Without a thread the chief would wait here for ever: for a server that writes its part; for its
// own file with what the servers have sent.
TEST(ServerCheckpointsTest, TheChiefMakesStepsWhileACheckpointIsWritten) {
  TempDirectory directory;
  train_here(directory / "alone", 25);
  for (const bool parts : {true, false}) {
    const std::string model_dir = directory / (parts ? "parts" : "whole");
    HeldFiles files;
    const auto hook = std::make_shared<AtStep>(15, [&] {
      EXPECT_EQ(latest(model_dir).global_step, 0) << "nobody sees what is not written";
      files.open();
    });
    train_tasks({.servers = 2,
                 .options = {.partitioner = plan::Partitioner::fixed(3)},
                 .adapt =
                     [&](RunConfig& config, bool serves, int index) {
                       if (serves ? parts && index == 1 : !parts) config.fs = &files;
                       if (!parts) look_away(config, serves, index);
                     },
                 .hook = hook},
                model_dir, table_and_dense, 25);
    for (const char* name : {"/model.ckpt-10", "/model.ckpt-20", "/model.ckpt-25"}) {
      EXPECT_TRUE(same_bits(read_checkpoint(local_file_system(), model_dir + name),
                            read_checkpoint(local_file_system(), directory / "alone" + name)))
          << name;
    }
  }
}

// Written and read by servers in parts, or by the chief in one file. Every run continues the one
// before it, and the end has the bits of a run in one process.
TEST(ServerCheckpointsTest, AnyRunContinuesAnyOther) {
  TempDirectory directory;
  train_here(directory / "alone", 70);
  const std::string model_dir = directory / "model";
  train_there(model_dir, 2, 10);
  train_there(model_dir, 3, 20);
  EXPECT_EQ(parts_of_latest(model_dir).size(), 3u);
  train_there(model_dir, 2, 30, look_away);
  EXPECT_EQ(parts_of_latest(model_dir).size(), 0u);
  train_there(model_dir, 1, 40);
  EXPECT_EQ(parts_of_latest(model_dir).size(), 1u);
  train_there(model_dir, 3, 50, look_away);
  train_there(model_dir, 4, 60);
  EXPECT_EQ(parts_of_latest(model_dir).size(), 4u);
  EXPECT_EQ(latest(model_dir).tensors.at("Adam/iterations").item<int64_t>(), 60);
  train_there(model_dir, 2, 70);
  EXPECT_TRUE(same_bits(latest(model_dir), latest(directory / "alone")));
}

TEST(ServerCheckpointsTest, WhateverReadsACheckpointReadsParts) {
  TempDirectory directory;
  const std::string alone = directory / "alone", served = directory / "served";
  train_here(alone, 20);
  train_there(served, 2, 20);
  const auto evaluated = [](const std::string& model_dir) {
    return Estimator(table_and_dense, quiet_config(model_dir))
        .evaluate([] { return examples(30).batch(10); })
        .at("loss");
  };
  EXPECT_EQ(evaluated(served), evaluated(alone));
  const auto exported = [&](const std::string& model_dir) {
    const std::string path = directory / "weights.pt";
    Estimator(table_and_dense, quiet_config(model_dir)).export_torch(path);
    return local_file_system().read_file(path).value();
  };
  EXPECT_EQ(exported(served), exported(alone));
  const auto warm = [&](const std::string& from, const std::string& model_dir) {
    RunConfig config = quiet_config(model_dir);
    config.warm_start_from = from;
    Estimator(table_and_dense, config).train(endless(), {.max_steps = 3});
    return latest(model_dir);
  };
  EXPECT_TRUE(same_bits(warm(served, directory / "warm"), warm(alone, directory / "also_warm")));
}

TEST(ServerCheckpointsTest, ADamagedPartIsPassedOver) {
  TempDirectory directory;
  train_here(directory / "alone", 30);
  for (const bool missing : {false, true}) {
    const std::string model_dir = directory / (missing ? "missing" : "damaged");
    train_there(model_dir, 2, 20);
    const std::string part = model_dir + "/" + parts_of_latest(model_dir)[1];
    if (missing) {
      std::filesystem::remove(part);
    } else {
      damage(part);
    }
    EXPECT_EQ(latest(model_dir).global_step, 10);
    train_there(model_dir, 3, 30);
    EXPECT_TRUE(same_bits(latest(model_dir), latest(directory / "alone")));
  }
}

// Which examples are unread is told by the positions of two workers, and of no other number.
TEST(ServerCheckpointsTest, OnAnotherNumberOfWorkersTheDataBeginsAnew) {
  TempDirectory directory;
  const std::string model_dir = directory / "model";
  const InputFn once = [] { return examples(120).batch(10); };
  const auto train = [&](int workers, bool restart_input) {
    const testing::LocalCluster cluster(workers, /*chief=*/true, /*servers=*/1);
    testing::run_ranks(workers + 1, [&](int task) {
      RunConfig config =
          quiet_config(model_dir, distribute::parameter_server(),
                       task == workers ? cluster.server_environment(0) : cluster.environment(task));
      config.restart_input = restart_input;
      Estimator(table_and_dense, config).train(once, {});
    });
    return latest(model_dir);
  };
  EXPECT_EQ(train(2, false).global_step, 12);
  const Error refused = error_of([&] { train(3, false); });
  EXPECT_THAT(refused.message(), HasSubstr("the positions of 2 workers"));
  EXPECT_THAT(refused.hint(), HasSubstr("restart_input"));
  // All of the data once more, and slots go on.
  const Checkpoint end = train(3, true);
  EXPECT_EQ(end.global_step, 24);
  EXPECT_EQ(end.tensors.at("Adam/iterations").item<int64_t>(), 24);
  // Where the number is the same, nothing is left to read.
  EXPECT_EQ(train(3, false).global_step, 24);
}

TEST(ServerCheckpointsTest, RetentionDeletesPartsOfOldOnes) {
  TempDirectory directory;
  train_there(directory / "model", 2, 60,
              [](RunConfig& config, bool, int) { config.keep_checkpoint_max = 2; });
  EXPECT_EQ(files_of_parts(directory / "model"), 4u);
}

TEST(ServerCheckpointsTest, AWeightThatIsNoNumberIsNotSaved) {
  TempDirectory directory;
  const ModelFn broken = [](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    // Its first update is too large for a float.
    const Tensor loss = spec.loss * 1e6;
    spec.train_op =
        context.optimizer(optim::sgd({.learning_rate = std::numeric_limits<float>::max()}))
            .minimize(loss);
    return spec;
  };
  const Error error =
      error_of([&] { train_tasks({.servers = 2}, directory / "model", broken, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("after step 1 the variable net/dense/kernel"),
                                     HasSubstr("nothing was saved")));
  EXPECT_EQ(CheckpointManager(directory / "model").all().size(), 1u);
  EXPECT_EQ(files_of_parts(directory / "model"), 2u);

  // A thread fetches it. The loss of the next step may be found first.
  const Error later = error_of([&] {
    train_tasks({.servers = 2,
                 .adapt = [](RunConfig& config, bool, int) { config.save_checkpoints_steps = 1; }},
                directory / "later", broken, 5);
  });
  EXPECT_EQ(later.kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(CheckpointManager(directory / "later").all().size(), 1u);
  EXPECT_EQ(files_of_parts(directory / "later"), 2u);
}

TEST(ServerCheckpointsTest, AServerWithoutSpaceIsNamed) {
  TempDirectory directory;
  FaultFileSystem full(local_file_system(), {.no_space_from = 0});
  const Error error = error_of([&] {
    train_tasks({.servers = 2,
                 // So long servers wait for the chief to come back.
                 .options = {.restart_timeout = Seconds(1)},
                 .adapt =
                     [&](RunConfig& config, bool serves, int index) {
                       if (serves && index == 1) config.fs = &full;
                     }},
                directory / "model", two_layers, 5);
  });
  EXPECT_EQ(exit_code(error.kind()), 2);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("ps 1 cannot save its part"), HasSubstr("No space left")));
  EXPECT_EQ(files_of_parts(directory / "model"), 0u);
}

// The second server cannot write its parts of these steps to the store.
void fail_second_part_of(const std::vector<int64_t>& steps) {
  memory_store().set_plan({.fail_from = 0, .only = [steps](const std::string& path) {
                             const std::string name(base_name(path));
                             return name.find(".part-1-of-2") != std::string::npos &&
                                    std::ranges::count(steps, checkpoint_part_step(name)) > 0;
                           }});
}

TEST(ServerCheckpointsTest, ARunGoesOnWithoutACheckpointThatAServerCannotWrite) {
  TempDirectory directory;
  train_here(directory / "alone", 45);
  MemoryStore& store = memory_store();
  store.clear();
  const std::string run = "mem://servers/mine";
  const auto names = [&] {
    std::vector<std::string> there;
    for (const std::string& name : store.objects()) {
      if (name.ends_with(".safetensors")) there.emplace_back(base_name(name).substr(0, 13));
    }
    return there;
  };
  fail_second_part_of({10, 20});
  ::testing::internal::CaptureStderr();
  train_there(run, 2, 45);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("ps 1 cannot save its part: "),
                          HasSubstr("1 of 2 allowed failures in a row"),
                          HasSubstr("2 of 2 allowed failures in a row")));
  // Of each two parts and the table of them; nothing of what could not be saved.
  std::vector<std::string> expected;
  for (const char* name : {"model.ckpt-0.", "model.ckpt-30", "model.ckpt-40", "model.ckpt-45"})
    expected.insert(expected.end(), 3, name);
  EXPECT_EQ(names(), expected);
  EXPECT_TRUE(same_bits(latest(run), latest(directory / "alone")));

  store.clear();
  fail_second_part_of({10, 20, 30});
  ::testing::internal::CaptureStderr();
  const Error error = error_of([&] {
    train_tasks({.servers = 2, .options = {.restart_timeout = Seconds(1)}}, run, two_layers, 60);
  });
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("3 saves in a row failed, and no more may; the last: ps 1 "
                                         "cannot save its part"));
  EXPECT_EQ(names(), std::vector<std::string>(3, "model.ckpt-0."));
  store.clear();
}

}  // namespace
}  // namespace muster::inline v0_1
