// A DNNClassifier that TensorFlow trained for 500 steps continues here, on the same rows, to step
// 1,000. The losses of its steps equal TensorFlow's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/muster.h"

namespace muster {
namespace {

using namespace feature_column;  // NOLINT(google-build-using-namespace)

std::string golden(const std::string& name) {
  return join_path(Environment::process().get("MUSTER_SOURCE_DIR").value(),
                   "tests/tensorflow/golden/" + name);
}

std::vector<double> losses_of(const std::string& run) {
  std::istringstream text(local_file_system().read_file(golden(run + "/losses.txt")).value());
  std::vector<double> losses;
  for (double loss = 0; text >> loss;) losses.push_back(loss);
  return losses;
}

// The optimizers of continue_estimator.py.
optim::Optimizer optimizer_of(const std::string& run) {
  if (run == "adam") return optim::adam({.learning_rate = 0.01});
  if (run == "adagrad") return optim::adagrad({.learning_rate = 0.05});
  if (run == "sgd") return optim::sgd({.learning_rate = 0.05, .momentum = 0.9});
  if (run == "rmsprop") return optim::rmsprop({.learning_rate = 0.003, .momentum = 0.5});
  return optim::ftrl({.learning_rate = 0.05});
}

Dataset rows() {
  return data::csv({golden("rows.csv")},
                   {.columns = {{.name = "size"},
                                {.name = "age"},
                                {.name = "city", .kind = data::CsvKind::kString},
                                {.name = "label", .kind = data::CsvKind::kInt64}},
                    .label = "label"})
      .repeat()
      .global_batch(32);
}

class RecordLosses : public Hook {
 public:
  void after_step(const StepInfo& step) override { losses.push_back(step.loss); }
  std::vector<double> losses;
};

class ContinueEstimator : public ::testing::TestWithParam<const char*> {};

TEST_P(ContinueEstimator, LossesAreThoseThatTensorFlowHad) {
  const std::string run = GetParam();
  const TempDirectory directory;
  FileSystem& files = local_file_system();
  for (const std::string& name : files.list_directory(golden(run)).value()) {
    files
        .write_atomically(join_path(directory.path(), name),
                          files.read_file(join_path(golden(run), name)).value())
        .value();
  }
  // As TensorFlow writes it.
  files
      .write_atomically(join_path(directory.path(), "checkpoint"),
                        std::string_view("model_checkpoint_path: \"model.ckpt-500\"\n"
                                         "all_model_checkpoint_paths: \"model.ckpt-500\"\n"))
      .value();
  const auto city = categorical_column_with_vocabulary_list("city", {"Oslo", "Rome", "Lima"});
  Estimator estimator =
      DNNClassifier({.hidden_units = {16, 8},
                     .feature_columns = {numeric_column("age"), numeric_column("size"),
                                         embedding_column(city, 2)},
                     .optimizer = optimizer_of(run)},
                    {.model_dir = directory.path()});
  const auto record = std::make_shared<RecordLosses>();
  const TrainResult result =
      estimator.train([] { return rows(); }, {.max_steps = 1000, .hooks = {record}});
  EXPECT_EQ(result.steps, 500);
  EXPECT_EQ(result.global_step, 1000);
  const std::vector<double> expected = losses_of(run);
  ASSERT_EQ(record->losses.size(), expected.size());
  double furthest = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    furthest = std::max(furthest, std::abs(record->losses[i] - expected[i]));
  RecordProperty("furthest", std::to_string(furthest));
  EXPECT_LE(furthest, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ContinueEstimator,
                         ::testing::Values("adam", "adagrad", "sgd", "rmsprop", "ftrl"));

}  // namespace
}  // namespace muster
