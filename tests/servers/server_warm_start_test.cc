// Runs on parameter servers that begin with the weights of another run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/embedding.h"
#include "muster/optim/exponential_moving_average.h"
#include "muster/optim/look_ahead.h"
#include "tests/support/served_run.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;
using testing::train_served;

constexpr int64_t kRows = 40;
const std::string kTable = "net/embedding/embeddings";

// A table of which a step uses few rows, statistics that do not train, and a dense weight.
ModelFn model_with(const std::function<optim::Optimizer()>& optimizer, int64_t rows = kRows) {
  return [=](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
    const auto table = context.model(
        "net", [=] { return Sequential({Embedding(rows, 4, {.row_sparse = true})}); });
    auto top = context.model("top", [] { return Sequential({BatchNormalization(), Dense(2)}); });
    const Tensor loss = testing::loss_of(top(table(features["id"].remainder(rows))), labels);
    if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
    return EstimatorSpec::train(loss, context.optimizer(optimizer()).minimize(loss));
  };
}

optim::Optimizer adam() { return optim::adam({.learning_rate = 0.01}); }

class ServerWarmStartTest : public ::testing::Test {
 protected:
  ServerWarmStartTest() {
    RunConfig config = quiet_config(base());
    config.random_seed = 5;
    Estimator(model_with(adam), config).train(shuffled_batches(64, 8), {.max_steps = 20});
  }

  std::string base() const { return directory_ / "base"; }
  std::string path(const std::string& name) const { return directory_ / name; }
  WarmStartSettings all() const {
    return {.ckpt_to_initialize_from = base(), .vars_to_warm_start = {".*"}};
  }
  RunConfig config(const std::string& name, const WarmStartFrom& from) const {
    RunConfig config = quiet_config(path(name));
    config.warm_start_from = from;
    return config;
  }
  // With and without servers, from the same settings.
  void expect_same(const std::string& name, const ModelFn& model_fn,
                   const WarmStartSettings& settings) {
    Estimator(model_fn, config(name + "_alone", settings)).train(input_, {.max_steps = 12});
    train_served({.servers = 2, .options = {.partitioner = plan::Partitioner::fixed(3)}},
                 config(name, settings), model_fn, input_, {.max_steps = 12});
    for (const int64_t step : {0, 12}) {
      const auto at = [&](const std::string& model_dir) {
        return CheckpointManager(model_dir).load(fmt::format("{}/model.ckpt-{}", model_dir, step));
      };
      EXPECT_TRUE(same_bits(at(path(name)), at(path(name + "_alone"))))
          << name << " " << step << " "
          << largest_difference(at(path(name)), at(path(name + "_alone")));
    }
  }

  TempDirectory directory_;
  const InputFn input_ = shuffled_batches(48, 8);
};

// Tables and statistics among the weights; and among the slots, those that begin as the weights.
TEST_F(ServerWarmStartTest, OneWorkerHasTheBitsOfARunWithoutServers) {
  expect_same("adam", model_with(adam), all());
  expect_same("average", model_with([] { return optim::exponential_moving_average(adam()); }),
              all());
  expect_same("by_name", model_with([] {
                return optim::exponential_moving_average(adam(), {.exclude = {"bias"}});
              }),
              all());
  expect_same("slow", model_with([] { return optim::look_ahead(optim::sgd({.momentum = 0.9})); }),
              all());
}

// Trainable variables are taken; statistics are not.
TEST_F(ServerWarmStartTest, VariablesThatWereNotChosenBeginAsUsual) {
  expect_same("chosen", model_with(adam), {.ckpt_to_initialize_from = base()});
}

TEST_F(ServerWarmStartTest, RowsOfTablesMoveWithTheirWords) {
  const auto write_words = [&](const std::string& name, int64_t from, int64_t count) {
    std::ofstream file(path(name));
    for (int64_t word = from; word < from + count; ++word) file << "word" << word << "\n";
    return path(name);
  };
  constexpr int64_t kNewRows = 50;
  WarmStartSettings moved = all();
  moved.var_name_to_vocab_info[kTable] = {.new_vocab = write_words("new", 10, kNewRows),
                                          .new_vocab_size = kNewRows,
                                          .old_vocab = write_words("old", 0, kRows)};
  expect_same("words", model_with(adam, kNewRows), moved);
}

// The checkpoint that the settings name may be gone then.
TEST_F(ServerWarmStartTest, ARunThatContinuesTakesNothing) {
  const auto run = [&](const std::string& name, const std::string& from, int64_t end) {
    return train_served({}, config(name, from), model_with(adam), input_, {.max_steps = end});
  };
  const Checkpoint whole = run("once", base(), 20);
  run("twice", base(), 10);
  EXPECT_TRUE(same_bits(run("twice", path("gone"), 20), whole));
}

TEST_F(ServerWarmStartTest, EveryWorkerBeginsWithWhatTheChiefTook) {
  // The steps are too small to change a weight.
  const ModelFn still = model_with([] { return optim::sgd({.learning_rate = 1e-30}); });
  const Checkpoint end = train_served({.workers = 3, .servers = 2}, config("three", all()), still,
                                      input_, {.max_steps = 9});
  const Checkpoint before = latest(base());
  for (const std::string& name : {kTable, std::string("top/dense/kernel")})
    EXPECT_TRUE(end.tensors.at(name).equal(before.tensors.at(name))) << name;
}

TEST_F(ServerWarmStartTest, ATableOfAnotherFormIsRefused) {
  const std::string message = message_of([&] {
    train_served({}, config("other", base()), model_with(adam, kRows + 1), input_,
                 {.max_steps = 2});
  });
  EXPECT_THAT(message, HasSubstr("net/embedding/embeddings float32[41, 4] row-sparse: the "
                                 "checkpoint holds \"net/embedding/embeddings\" as "
                                 "float32[40, 4]"));
}

}  // namespace
}  // namespace muster::inline v0_1
