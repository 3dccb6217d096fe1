// Training on data that workers read for themselves: files divided between them, or everything on
// each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/text_lines.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::quiet_config;
using testing::two_layers;

// Files whose lines are ids, one after another: file f has `rows[f]` of them.
std::vector<std::string> write_files(const TempDirectory& directory,
                                     const std::vector<int64_t>& rows) {
  std::vector<std::string> files;
  int64_t id = 0;
  for (const int64_t n : rows) {
    std::string text;
    for (int64_t i = 0; i < n; ++i) text += std::to_string(id++) + "\n";
    files.push_back(directory / fmt::format("part-{}", files.size()));
    local_file_system().write_atomically(files.back(), text).value();
  }
  return files;
}

// The examples that the lines of the files name.
Dataset read(const std::vector<std::string>& files) {
  return Dataset::from_files(files, data::text_line_format()).map([](const Element& line) {
    const int64_t id = std::stoll(std::string(line.value().strings()[0]));
    const Tensor x = torch::full({testing::kFeatures}, static_cast<double>(id) / 100, kFloat32);
    return Element::tuple({Element::dict({{"x", x}, {"id", torch::scalar_tensor(id, at::kLong)}}),
                           torch::scalar_tensor(id % 2, at::kLong)});
  });
}

// The ids of batches, as replicas trained on them.
class Seen {
 public:
  ModelFn model() {
    return
        [this](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
          if (torch::GradMode::is_enabled()) {
            const std::lock_guard lock(mutex_);
            std::vector<int64_t>& ids = by_step_[context.global_step()];
            for (int64_t i = 0; i < features["id"].size(0); ++i)
              ids.push_back(features["id"][i].item<int64_t>());
          }
          return two_layers(features, labels, mode, context);
        };
  }
  std::vector<int64_t> all() const {
    std::vector<int64_t> ids;
    for (const auto& [step, more] : by_step_) ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  }
  const std::vector<int64_t>& of_step(int64_t step) const { return by_step_.at(step); }
  // How often each id was seen; all of them `times`, or a failure.
  void expect_each(int64_t ids, int times) const {
    std::map<int64_t, int> counts;
    for (const int64_t id : all()) ++counts[id];
    EXPECT_EQ(counts.size(), static_cast<size_t>(ids));
    for (const auto& [id, count] : counts) EXPECT_EQ(count, times) << "id " << id;
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::vector<int64_t>> by_step_;
};

TrainResult train(int workers, int local_replicas, const std::string& model_dir,
                  const ModelFn& model, const InputFn& input, int64_t max_steps) {
  const LocalCluster cluster(workers);
  std::mutex mutex;
  TrainResult result;
  testing::run_ranks(workers, [&](int rank) {
    Estimator estimator(
        model,
        quiet_config(model_dir,
                     distribute::multi_worker_mirrored({.local_replicas = local_replicas}),
                     workers == 1 ? Environment() : cluster.environment(rank)),
        json::object());
    const TrainResult mine = estimator.train(input, {.max_steps = max_steps});
    const std::lock_guard lock(mutex);
    result = mine;
  });
  return result;
}

class WorkerDataTest : public ::testing::TestWithParam<int> {};  // replicas in each of two workers

TEST_P(WorkerDataTest, FilesAreReadOnceByWorkersThatEndApart) {
  TempDirectory directory;
  const auto files = write_files(directory, {9, 5, 8, 3});  // 17 rows, and 8
  Seen seen;
  const TrainResult result = train(
      2, GetParam(), directory / "m", seen.model(), [&] { return read(files).shuffle(6).batch(2); },
      100);
  EXPECT_TRUE(result.end_of_input);
  EXPECT_EQ(result.global_step, GetParam() == 1 ? 9 : 5);
  seen.expect_each(25, 1);
}

// A global batch is one of all workers, wherever their rows come from.
TEST_P(WorkerDataTest, GlobalBatchesAreMadeOfAllWorkersFiles) {
  TempDirectory directory;
  const auto files = write_files(directory, {7, 8, 7, 8});
  Seen seen;
  const TrainResult result = train(
      2, GetParam(), directory / "m", seen.model(), [&] { return read(files).global_batch(8); },
      100);
  EXPECT_EQ(result.global_step, 4);
  EXPECT_EQ(seen.of_step(0).size(), 8u);
  EXPECT_EQ(seen.of_step(2).size(), 8u);
  seen.expect_each(30, 1);
}

TEST_P(WorkerDataTest, ABatchMayBeSmallerThanTheNumberOfReplicas) {
  TempDirectory directory;
  const auto files = write_files(directory, {3, 2});
  Seen seen;
  const TrainResult result = train(
      2, GetParam(), directory / "m", seen.model(), [&] { return read(files).global_batch(1); },
      100);
  EXPECT_TRUE(result.end_of_input);
  for (int64_t step = 0; step < 5; ++step) EXPECT_LE(seen.of_step(step).size(), 1u);
  seen.expect_each(5, 1);
}

TEST_P(WorkerDataTest, FilesContinueWhereTheyStood) {
  for (const bool global : {false, true}) {
    TempDirectory directory;
    const auto files = write_files(directory, {9, 6, 8, 7});
    const InputFn input = [&] {
      const Dataset rows = read(files).shuffle(5);
      return global ? rows.global_batch(4 * GetParam()) : rows.batch(2);
    };
    Seen whole, parts;
    const TrainResult end = train(2, GetParam(), directory / "w", whole.model(), input, 100);
    for (int64_t stop : {int64_t{1}, int64_t{3}, end.global_step - 1, int64_t{100}}) {
      train(2, GetParam(), directory / "p", parts.model(), input, stop);
    }
    whole.expect_each(30, 1);
    for (int64_t step = 0; step < end.global_step; ++step) {
      const auto sorted = [&](const Seen& seen) {
        return std::multiset<int64_t>(seen.of_step(step).begin(), seen.of_step(step).end());
      };
      EXPECT_EQ(sorted(parts), sorted(whole)) << "step " << step << ", global " << global;
    }
    parts.expect_each(30, 1);
    EXPECT_TRUE(
        testing::same_bits(testing::latest(directory / "p"), testing::latest(directory / "w")));
  }
}
INSTANTIATE_TEST_SUITE_P(Replicas, WorkerDataTest, ::testing::Values(1, 2));

TEST(WorkerDataTest, UnderOffEveryWorkerReadsEverythingInAnOrderOfItsOwn) {
  TempDirectory directory;
  Seen seen;
  const TrainResult result = train(
      2, 1, directory / "m", seen.model(),
      [] {
        return testing::examples(12).shuffle(12).batch(12).with_options(
            {.auto_shard_policy = AutoShardPolicy::kOff});
      },
      100);
  EXPECT_EQ(result.global_step, 1);
  seen.expect_each(12, 2);
  const auto& ids = seen.all();
  EXPECT_NE(std::vector<int64_t>(ids.begin(), ids.begin() + 12),
            std::vector<int64_t>(ids.begin() + 12, ids.end()));
}

TEST(WorkerDataTest, FewerFilesThanWorkersIsTheSameErrorOnEach) {
  TempDirectory directory;
  const auto files = write_files(directory, {9});
  const LocalCluster cluster(2);
  std::mutex mutex;
  std::vector<std::string> told;
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(two_layers,
                        quiet_config(directory / "m", distribute::multi_worker_mirrored(),
                                     cluster.environment(rank)));
    const auto input = [&] {
      return read(files).batch(2).with_options({.auto_shard_policy = AutoShardPolicy::kFile});
    };
    const Error error = error_of([&] { estimator.train(input, {.max_steps = 5}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    const std::lock_guard lock(mutex);
    told.push_back(error.message());
  });
  ASSERT_EQ(told.size(), 2u);
  // One task may receive the other's error before it finds its own.
  for (const std::string& message : told)
    EXPECT_THAT(message, AllOf(HasSubstr("only has 1 file"), HasSubstr("2 shards/workers")));
}

TEST(WorkerDataTest, AnotherNumberOfWorkersIsRefused) {
  TempDirectory directory;
  const auto files = write_files(directory, {9, 9, 9});
  const InputFn input = [&] { return read(files).repeat().batch(2); };
  train(2, 1, directory / "m", two_layers, input, 3);
  const Error error = error_of([&] { train(3, 1, directory / "m", two_layers, input, 6); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("the positions of 2 workers"), HasSubstr("kData")));
}

TEST(WorkerDataTest, GlobalBatchesContinueOnOtherReplicasOfTheSameWorkers) {
  TempDirectory directory;
  const auto files = write_files(directory, {9, 9, 9, 9});
  const InputFn input = [&] { return read(files).global_batch(6); };
  Seen seen;
  train(2, 1, directory / "m", seen.model(), input, 2);
  train(2, 2, directory / "m", seen.model(), input, 4);
  train(2, 1, directory / "m", seen.model(), input, 100);
  seen.expect_each(36, 1);
}

// Loops written by hand give global batches; files divide them too.
TEST(WorkerDataTest, LoopsOverFilesSeeEachRowOnce) {
  for (const int local_replicas : {1, 2}) {
    TempDirectory directory;
    const auto files = write_files(directory, {7, 8, 7, 9});
    const LocalCluster cluster(2);
    std::mutex mutex;
    std::multiset<int64_t> ids;
    std::vector<int64_t> rows_of_step(100);
    testing::run_ranks(2, [&](int rank) {
      const auto strategy = distribute::multi_worker_mirrored({.local_replicas = local_replicas});
      const auto scope = strategy->scope({.environment = cluster.environment(rank)});
      size_t step = 0;
      for (const auto& batches : strategy->distribute(read(files).batch(8))) {
        const std::lock_guard lock(mutex);
        for (const Batch& batch : batches) {
          const Tensor id = batch.features["id"];
          rows_of_step[step] += id.size(0);
          for (int64_t i = 0; i < id.size(0); ++i) ids.insert(id[i].item<int64_t>());
        }
        ++step;
      }
    });
    EXPECT_EQ(ids.size(), 31u);
    EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), 31u);
    EXPECT_EQ(rows_of_step[0], 8);
    EXPECT_EQ(rows_of_step[1], 8);
    EXPECT_EQ(rows_of_step[5], 0);
  }
}

TEST(WorkerDataTest, EveryWorkerGetsASeedOfItsOwn) {
  TempDirectory directory;
  std::mutex mutex;
  std::set<uint64_t> seeds;
  train(2, 1, directory / "m", two_layers, InputFn([&](const InputContext& context) {
          const std::lock_guard lock(mutex);
          seeds.insert(context.seed);
          return testing::examples(8).batch(4);
        }),
        1);
  EXPECT_EQ(seeds.size(), 2u);
}

}  // namespace
}  // namespace muster::inline v0_1
