#include "muster/data/distribute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/base/error_of.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/data/scaled_batches.h"
#include "muster/plan/data_shards.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;
using Lists = std::vector<Numbers>;

constexpr uint64_t kSeed = 11;

// Processes, and the replicas of each.
struct Layout {
  int64_t pipelines, locals;
};
constexpr Layout kLayouts[] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 1}, {3, 2}};

std::vector<ReplicaPlace> places_of(const Layout& layout) {
  std::vector<ReplicaPlace> places;
  for (int64_t pipeline = 0; pipeline < layout.pipelines; ++pipeline) {
    for (int64_t local = 0; local < layout.locals; ++local) {
      places.push_back({.num_input_pipelines = layout.pipelines,
                        .input_pipeline_id = pipeline,
                        .num_local_replicas = layout.locals,
                        .local_replica = local});
    }
  }
  return places;
}

std::string to_string(const Layout& layout) {
  return fmt::format("{} pipelines of {} replicas", layout.pipelines, layout.locals);
}

// The batches of every replica, by rank.
std::vector<Lists> batches_of(const Dataset& dataset, const Layout& layout,
                              const DistributeOptions& options = {}) {
  std::vector<Lists> batches;
  for (const ReplicaPlace& place : places_of(layout)) {
    batches.push_back(rest_of(*distribute(dataset, place, kSeed, options).iterator));
  }
  return batches;
}

Numbers sorted_rows_of(const std::vector<Lists>& batches) {
  Numbers rows;
  for (const Lists& replica : batches) {
    for (const Numbers& batch : replica) rows.insert(rows.end(), batch.begin(), batch.end());
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

// The numbers that all replicas together read in a step, in rank order.
Numbers step_of(const std::vector<Lists>& batches, size_t step) {
  Numbers rows;
  for (const Lists& replica : batches) {
    if (step < replica.size()) {
      rows.insert(rows.end(), replica[step].begin(), replica[step].end());
    }
  }
  return rows;
}

Numbers numbers_below(int64_t n) {
  Numbers rows;
  for (int64_t i = 0; i < n; ++i) rows.push_back(i);
  return rows;
}

// Seven files of 0 … 40, of unequal lengths.
Dataset seven_files() {
  return number_files({"0-5", "5-11", "11-18", "18-20", "20-29", "29-33", "33-41"});
}

TEST(Distribute, EveryRowGoesToOneReplica) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(to_string(layout));
    const Dataset range = Dataset::range(41).shuffle(41);
    EXPECT_EQ(sorted_rows_of(batches_of(range.batch(3), layout)), numbers_below(41));
    EXPECT_EQ(sorted_rows_of(batches_of(range.global_batch(8), layout)), numbers_below(41));
    EXPECT_EQ(sorted_rows_of(batches_of(range.batch(8), layout, {.global_batches = true})),
              numbers_below(41));
    for (const AutoShardPolicy policy :
         {AutoShardPolicy::kAuto, AutoShardPolicy::kFile, AutoShardPolicy::kData}) {
      const Dataset files = seven_files().shuffle(9).with_options({.auto_shard_policy = policy});
      EXPECT_EQ(sorted_rows_of(batches_of(files.batch(3), layout)), numbers_below(41));
      EXPECT_EQ(sorted_rows_of(batches_of(files.batch(8), layout, {.global_batches = true})),
                numbers_below(41));
    }
  }
}

TEST(Distribute, RowsDoNotDependOnHowReplicasShareProcesses) {
  const Dataset dataset = Dataset::range(29).shuffle(29).batch(2);
  const std::vector<Lists> alone = batches_of(dataset, {1, 6});
  for (const Layout& layout : {Layout{2, 3}, Layout{3, 2}, Layout{6, 1}}) {
    EXPECT_EQ(batches_of(dataset, layout), alone) << to_string(layout);
  }
  // A step is the next rows of the order one replica reads.
  const Numbers order = numbers_in([&] {
    std::optional<Element> all;
    EXPECT_TRUE(all = Dataset::range(29).shuffle(29).batch(29).iterator({.seed = kSeed})->next());
    return *all;
  }());
  for (size_t step = 0; step < 2; ++step) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(12 * step);
    EXPECT_EQ(step_of(alone, step), Numbers(begin, begin + 12));
  }
}

TEST(Distribute, GlobalBatchesAreStepsOfThatSize) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(to_string(layout));
    const std::vector<Lists> rows =
        batches_of(Dataset::range(25).batch(10), layout, {.global_batches = true});
    EXPECT_EQ(step_of(rows, 0), numbers_below(10));
    EXPECT_EQ(step_of(rows, 1).size(), 10u);
    EXPECT_EQ(step_of(rows, 2).size(), 5u);
    // Of files too, while every process has rows left.
    const std::vector<Lists> files =
        batches_of(seven_files().batch(10), layout, {.global_batches = true});
    EXPECT_EQ(step_of(files, 0).size(), 10u);
    const std::vector<Lists> marked = batches_of(seven_files().global_batch(10), layout);
    EXPECT_EQ(marked, files);
  }
}

TEST(Distribute, AProcessThatReadsFilesOfItsOwnCutsItsPartOfGlobalBatches) {
  const Layout layout{3, 2};
  for (const ReplicaPlace& place : places_of(layout)) {
    const DistributedInput input =
        distribute(seven_files().batch(10), place, kSeed, {.global_batches = true});
    const Numbers sizes = plan::batch_sizes_for_worker(10, 3, 2, place.input_pipeline_id);
    const Lists batches = rest_of(*input.iterator);
    ASSERT_FALSE(batches.empty());
    EXPECT_EQ(static_cast<int64_t>(batches[0].size()),
              sizes.at(static_cast<size_t>(place.local_replica)));
  }
}

TEST(Distribute, FilesAreDividedBetweenProcessesAndTheirBatchesBetweenReplicas) {
  for (const ReplicaPlace& place : places_of({2, 2})) {
    const DistributedInput input = distribute(seven_files().batch(4), place, kSeed);
    EXPECT_TRUE(input.by_process);
    EXPECT_EQ(input.applied, AutoShardPolicy::kFile);
    EXPECT_THAT(input.why, HasSubstr(fmt::format("worker {} of 2", place.input_pipeline_id)));
  }
  const std::vector<Lists> batches = batches_of(seven_files().batch(4), {2, 2});
  EXPECT_THAT(batches[0][0], ElementsAre(0, 1, 2, 3));  // files 0, 2, 4 and 6
  EXPECT_THAT(batches[1][0], ElementsAre(4, 11, 12, 13));
  EXPECT_THAT(batches[2][0], ElementsAre(5, 6, 7, 8));  // files 1, 3 and 5
  EXPECT_THAT(batches[3][0], ElementsAre(9, 10, 18, 19));
}

TEST(Distribute, ProcessesThatReadTheSameShuffleItDifferently) {
  const Dataset off = Dataset::range(50).shuffle(50).batch(50).with_options(
      {.auto_shard_policy = AutoShardPolicy::kOff});
  const std::vector<Lists> batches = batches_of(off, {2, 1});
  EXPECT_EQ(sorted_rows_of({batches[0]}), numbers_below(50));
  EXPECT_EQ(sorted_rows_of({batches[1]}), numbers_below(50));
  EXPECT_NE(batches[0], batches[1]);
  const DistributedInput input = distribute(off, places_of({2, 1})[1], kSeed);
  EXPECT_TRUE(input.by_process);
  EXPECT_EQ(input.applied, AutoShardPolicy::kOff);
}

TEST(Distribute, ADatasetShardedByHandIsLeftAlone) {
  for (const int64_t pipeline : {0, 1}) {
    const Dataset mine = Dataset::range(24).shuffle(24).shard(2, pipeline).batch(3);
    const Lists whole = rest_of(*mine.iterator({.seed = kSeed}));
    for (const bool global_batches : {false, true}) {
      Lists turns;
      for (const int64_t local : {0, 1}) {
        const ReplicaPlace place{.num_input_pipelines = 2,
                                 .input_pipeline_id = pipeline,
                                 .num_local_replicas = 2,
                                 .local_replica = local};
        const DistributedInput input =
            distribute(mine, place, kSeed, {.global_batches = global_batches});
        EXPECT_TRUE(input.by_process);
        EXPECT_EQ(input.applied, AutoShardPolicy::kOff);
        EXPECT_THAT(input.why, HasSubstr("its own shard()"));
        for (Numbers& batch : rest_of(*input.iterator)) turns.push_back(std::move(batch));
      }
      ASSERT_EQ(turns.size(), whole.size());
      EXPECT_EQ((Lists{turns[0], turns[2], turns[1], turns[3]}), whole);
    }
  }
  const DistributedInput alone = distribute(Dataset::range(6).shard(2, 0), {}, kSeed);
  EXPECT_TRUE(alone.by_process);
}

TEST(Distribute, DataOfThisProcessGoesToItsReplicasInTurn) {
  const Dataset dataset = Dataset::range(12).batch(3);
  for (const ReplicaPlace& place : places_of({3, 2})) {
    const DistributedInput input = distribute_locally(dataset, place, kSeed);
    EXPECT_TRUE(input.by_process);
    EXPECT_EQ(input.applied, AutoShardPolicy::kOff);
    const int64_t first = 3 * place.local_replica;
    EXPECT_EQ(rest_of(*input.iterator),
              (Lists{{first, first + 1, first + 2}, {first + 6, first + 7, first + 8}}));
  }
}

TEST(Distribute, APassHasAnOrderOfItsOwnThatOnlyTheSeedDecides) {
  const Dataset dataset = Dataset::range(40).shuffle(40).batch(40);
  const auto order = [&](const DistributeOptions& options) {
    return rest_of(*distribute(dataset, {}, kSeed, options).iterator);
  };
  EXPECT_EQ(order({}), rest_of(*dataset.iterator({.seed = kSeed})));
  EXPECT_NE(order({.pass = 1}), order({}));
  EXPECT_EQ(order({.pass = 1}), order({.pass = 1}));
  EXPECT_EQ(order({.pass = 1}), rest_of(*dataset.iterator({.seed = kSeed, .pass = 1})));
  EXPECT_EQ(order({.pass = 1})[0], rest_of(*dataset.repeat(2).iterator({.seed = kSeed}))[1]);
  EXPECT_EQ(rest_of(*distribute_locally(dataset, {}, kSeed, {.pass = 1}).iterator),
            order({.pass = 1}));
  // Each process that reads files of its own has a key of its own.
  const Dataset files = seven_files().shuffle(41).batch(41);
  const uint64_t second = derive_key(kSeed, {id_of("worker"), 1}).key;
  const Lists mine = rest_of(*distribute(files, places_of({2, 1})[1], kSeed).iterator);
  const Dataset own = number_files({"5-11", "18-20", "29-33"}).shuffle(41).batch(41);
  EXPECT_EQ(mine, rest_of(*own.iterator({.seed = second})));
}

TEST(Distribute, APositionKnowsItsPass) {
  const Dataset dataset = Dataset::range(40).shuffle(40).batch(10);
  const Lists whole = rest_of(*dataset.iterator({.seed = kSeed, .pass = 2}));
  const auto first = dataset.iterator({.seed = kSeed, .pass = 2});
  first->next();
  const auto second = dataset.iterator({.seed = kSeed});
  second->restore(nlohmann::json::parse(first->save().dump()));
  EXPECT_EQ(rest_of(*second), Lists(whole.begin() + 1, whole.end()));
  // A position without a pass belongs to the first pass.
  const auto third = dataset.iterator({.seed = kSeed, .pass = 1});
  third->restore(dataset.iterator({.seed = kSeed})->save());
  EXPECT_EQ(rest_of(*third), rest_of(*dataset.iterator({.seed = kSeed})));
  nlohmann::json wrong = first->save();
  wrong["pass"] = "two";
  EXPECT_EQ(error_of([&] { second->restore(wrong); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(Distribute, SaysWhatWasChosenAndWhy) {
  const Dataset range = Dataset::range(9).batch(3);
  const DistributedInput one = distribute(range, places_of({1, 2})[0], kSeed);
  EXPECT_FALSE(one.by_process);
  EXPECT_EQ(one.applied, AutoShardPolicy::kOff);
  EXPECT_EQ(one.why, "there is one worker");
  const DistributedInput rows = distribute(range, places_of({2, 1})[0], kSeed);
  EXPECT_FALSE(rows.by_process);
  EXPECT_EQ(rows.applied, AutoShardPolicy::kData);
  EXPECT_THAT(rows.why, HasSubstr("does not begin with files"));
  const Dataset asked =
      seven_files().batch(3).with_options({.auto_shard_policy = AutoShardPolicy::kData});
  EXPECT_THAT(distribute(asked, places_of({2, 1})[0], kSeed).why, HasSubstr("as asked"));
  const Dataset counted = seven_files().assert_cardinality(41).batch(3);
  EXPECT_EQ(distribute(counted, places_of({2, 1})[1], kSeed).why,
            "files are divided: worker 1 of 2 reads 3 of 7; assert_cardinality() is left out");
}

TEST(Distribute, FewerFilesThanProcessesAreDividedByRows) {
  for (const Dataset& files :
       {number_files({"0-12"}),
        Dataset::from_tensor_slices(Strings({"0-6", "6-12"})).flat_map([](const Element& name) {
          return number_files({std::string(name.value().strings()[0])});
        })}) {
    const Dataset dataset = files.batch(2);
    const DistributedInput rows = distribute(dataset, places_of({3, 1})[1], kSeed);
    EXPECT_EQ(rows.applied, AutoShardPolicy::kData);
    EXPECT_FALSE(rows.by_process);
    EXPECT_THAT(rows.why, HasSubstr("than workers (3)"));
    EXPECT_EQ(rest_of(*rows.iterator), (Lists{{2, 3}, {8, 9}}));
  }
  // As many files as processes are divided.
  EXPECT_EQ(distribute(number_files({"0-4", "4-8"}).batch(2), places_of({2, 1})[1], kSeed).applied,
            AutoShardPolicy::kFile);
}

TEST(Distribute, TheHintDividesAsEachProcessSaysIt) {
  const Dataset dataset = Dataset::range(9)
                              .shard(kShardHint, kShardHint)
                              .batch(2)
                              .with_options({.auto_shard_policy = AutoShardPolicy::kHint});
  const DistributedInput second = distribute(dataset, places_of({2, 1})[1], kSeed);
  EXPECT_EQ(second.applied, AutoShardPolicy::kHint);
  EXPECT_TRUE(second.by_process);
  EXPECT_EQ(rest_of(*second.iterator), (Lists{{1, 3}, {5, 7}}));
  EXPECT_EQ(rest_of(*distribute(dataset, places_of({1, 1})[0], kSeed).iterator),
            (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8}}));
}

TEST(Distribute, RefusesOnAllReplicasAlike) {
  for (const ReplicaPlace& place : places_of({2, 2})) {
    const auto why = [&](const Dataset& dataset, const DistributeOptions& options = {}) {
      return error_of([&] { distribute(dataset, place, kSeed, options); });
    };
    const DatasetOptions by_file{.auto_shard_policy = AutoShardPolicy::kFile};
    EXPECT_EQ(why(number_files({"0-5"}).batch(2).with_options(by_file)).kind(),
              ErrorKind::kInvalidArgument);
    EXPECT_EQ(why(Dataset::range(9)).kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(why(seven_files(), {.global_batches = true}).kind(), ErrorKind::kInvalidArgument);
    const Dataset range =
        Dataset::range(9).batch(2).with_options({.auto_shard_policy = AutoShardPolicy::kFile});
    EXPECT_EQ(why(range).kind(), ErrorKind::kNotFound);
  }
}

TEST(ScaledBatches, OnlyABatchOfAReplicaGrows) {
  const auto sizes_of = [](const Dataset& dataset) {
    Numbers sizes;
    for (const Numbers& batch : rest_of(*scaled_batches(dataset, 4).iterator({}))) {
      sizes.push_back(std::ssize(batch));
    }
    return sizes;
  };
  const Dataset numbers = Dataset::range(30);
  EXPECT_THAT(sizes_of(numbers.batch(3)), ElementsAre(12, 12, 6));
  EXPECT_THAT(sizes_of(numbers.batch(3, {.drop_remainder = true}).prefetch(1)),
              ElementsAre(12, 12));
  EXPECT_THAT(sizes_of(numbers.batch(3).take(2)), ElementsAre(12, 12));
  EXPECT_THAT(sizes_of(numbers.global_batch(15)), ElementsAre(15, 15));
  EXPECT_THAT(sizes_of(numbers.batch(5).rebatch({10})), ElementsAre(10, 10, 10));
}

}  // namespace
}  // namespace muster::inline v0_1::data
