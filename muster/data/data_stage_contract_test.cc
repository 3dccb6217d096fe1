// The contract of stages: how many calls run at once, which memory belongs to whom, that order is
// kept where it counts, and that nothing breaks when one of them fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/auto_shard.h"
#include "muster/data/internal/held_memory.h"
#include "muster/data/internal/stream_element.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/data/text_lines.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::multiset<int64_t> counted(const Lists& lists) {
  std::multiset<int64_t> all;
  for (const auto& list : lists) all.insert(list.begin(), list.end());
  return all;
}
std::multiset<int64_t> all_below(int64_t n) {
  std::multiset<int64_t> all;
  for (int64_t i = 0; i < n; ++i) all.insert(i);
  return all;
}

// How many calls of a function run at once.
class Calls {
 public:
  Dataset::MapFunction identity() {
    return [this](const Element& element) {
      const int now = ++running_;
      int most = most_;
      while (now > most && !most_.compare_exchange_weak(most, now)) {
      }
      // Time for another call to begin, if it were allowed; a slower machine only sees fewer at
      // once.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --running_;
      return element;
    };
  }
  int most() const { return most_; }

 private:
  std::atomic<int> running_{0}, most_{0};
};

TEST(Maps, OneCallAtATimeIsOneCallBesideOthersThatAreParallel) {
  for (const bool parallel_first : {true, false}) {
    Calls alone, several;
    const MapOptions four{.num_parallel_calls = 4};
    Dataset dataset = Dataset::range(32);
    dataset = parallel_first ? dataset.map(several.identity(), four).map(alone.identity())
                             : dataset.map(alone.identity()).map(several.identity(), four);
    EXPECT_EQ(counted(read(dataset.batch(16))), all_below(32));
    EXPECT_EQ(alone.most(), 1);
    EXPECT_LE(several.most(), 4);
  }
}

// Elements of later indices are ready first.
Dataset out_of_order(int64_t n) {
  return Dataset::range(n).map(
      [](const Element& element) {
        // The invariant concerns elements that take unequal time; no result depends on how long.
        std::this_thread::sleep_for(std::chrono::microseconds(number(element) % 4 == 0 ? 800 : 0));
        return element;
      },
      {.num_parallel_calls = 4, .deterministic = false});
}

TEST(Maps, OutOfOrderLoseNothingWhereReplicasAreDealtTo) {
  const Dataset dataset = out_of_order(40).batch(5);
  Lists all;
  for (int64_t replica = 0; replica < 2; ++replica) {
    for (auto& batch : read(dataset, {.sharding = {.num_replicas = 2, .replica = replica}}))
      all.push_back(batch);
  }
  EXPECT_EQ(counted(all), all_below(40));
}

TEST(Maps, OutOfOrderLoseNothingWhereStagesReadAgain) {
  const std::vector<std::pair<std::string, Dataset>> pipelines{
      {"shuffle", out_of_order(24).shuffle(6)},
      {"unbatch", out_of_order(24).batch(5).unbatch()},
      {"rebatch", out_of_order(24).batch(5).rebatch({2, 3})},
      {"cache", out_of_order(24).cache()},
      {"flat_map",
       out_of_order(24).flat_map([](const Element& x) { return Dataset::from_tensors(x); })},
      {"flat_map of maps, shuffled",
       Dataset::range(1).flat_map([](const Element&) { return out_of_order(24); }).shuffle(6)},
      {"behind nothing", out_of_order(24)}};
  for (const auto& [name, dataset] : pipelines) {
    for (const int64_t stop : {1, 4, 7}) {
      const auto first = dataset.iterator();
      Lists seen;
      std::optional<Element> element;
      for (int64_t i = 0; i < stop; ++i) {
        ASSERT_TRUE(element = first->next());
        seen.push_back(numbers_in(*element));
      }
      const auto second = dataset.iterator();
      second->restore(json::parse(first->save().dump()));
      for (auto& rest : rest_of(*second)) seen.push_back(rest);
      EXPECT_EQ(counted(seen), all_below(24)) << name << ", stopped after " << stop;
    }
  }
}

// The number of replicas may change, also around maps out of order.
TEST(Restoring, OutOfOrderContinuesOnAnotherNumberOfReplicas) {
  const std::vector<std::pair<std::string, Dataset>> pipelines{
      {"map", out_of_order(24).batch(2)},
      {"inside of flat_map",
       Dataset::range(1).flat_map([](const Element&) { return out_of_order(24); }).batch(2)}};
  for (const auto& [name, dataset] : pipelines) {
    for (const int64_t stop : {1, 3, 5}) {
      const auto one = dataset.iterator();
      Lists seen;
      std::optional<Element> element;
      for (int64_t i = 0; i < stop; ++i) {
        ASSERT_TRUE(element = one->next());
        seen.push_back(numbers_in(*element));
      }
      const json position = one->save();
      for (int64_t replica = 0; replica < 2; ++replica) {
        const auto rest = dataset.iterator({.sharding = {.num_replicas = 2, .replica = replica}});
        rest->restore(position);
        for (auto& batch : rest_of(*rest)) seen.push_back(batch);
      }
      EXPECT_EQ(counted(seen), all_below(24)) << name << ", stopped after " << stop;
    }
  }
}

TEST(Restoring, AnAssertionIsReportedOnce) {
  const Dataset five = Dataset::range(5).filter([](const Element&) { return true; });
  for (const int64_t expected : {3, 6}) {
    const Dataset dataset = five.assert_cardinality(expected);
    const Lists whole = read(dataset);
    for (size_t stop = 0; stop <= whole.size(); ++stop) {
      const auto first = dataset.iterator();
      for (size_t i = 0; i < stop; ++i) {
        try {
          first->next();
        } catch (const Error&) {
        }
      }
      const auto second = dataset.iterator();
      second->restore(first->save());
      EXPECT_EQ(rest_of(*second),
                Lists(whole.begin() + static_cast<std::ptrdiff_t>(stop), whole.end()))
          << expected << " " << stop;
    }
  }
}

TEST(Restoring, ThatFailsLeavesTheIteratorWhereItWas) {
  const Dataset dataset = number_files({"0-4", "10-14"}).shuffle(3).batch(2);
  const auto iterator = dataset.iterator({.seed = 5});
  const Lists whole = rest_of(*dataset.iterator({.seed = 5}));
  iterator->next();
  json wrong = iterator->save();
  wrong["position"].push_back(7);
  EXPECT_EQ(error_of([&] { iterator->restore(wrong); }).kind(), ErrorKind::kInvalidArgument);
  wrong = iterator->save();
  wrong["seed"] = 9;
  for (auto& place : wrong["position"]) place = 1000;
  EXPECT_EQ(error_of([&] { iterator->restore(wrong); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(rest_of(*iterator), Lists(whole.begin() + 1, whole.end()));
}

TEST(Restoring, ACacheThatWasLongerIsAnError) {
  TempDirectory directory;
  for (const std::string& path : {std::string(), directory / "cache"}) {
    int64_t n = 6;
    const Dataset dataset = Dataset::from_generator([&n]() -> Dataset::Generator {
                              return [&n, next = int64_t{0}]() mutable -> std::optional<Element> {
                                if (next >= n) return std::nullopt;
                                return Element(torch::scalar_tensor(next++, at::kLong));
                              };
                            }).cache(path);
    const auto iterator = dataset.iterator();
    for (int i = 0; i < 5; ++i) iterator->next();
    const json position = iterator->save();
    n = 3;
    const auto shorter = dataset.iterator();
    EXPECT_THAT(error_of([&] { shorter->restore(position); }).what(),
                HasSubstr("the saved position is element 5 of"));
  }
}

TEST(AssertCardinality, IsAnErrorAtTheFirstElementTooMany) {
  const Dataset five = Dataset::range(5).filter([](const Element&) { return true; });
  EXPECT_EQ(read(five.assert_cardinality(3)), (Lists{{0}, {1}, {2}, {-1}, {4}}));
  EXPECT_EQ(read(five.assert_cardinality(3).batch(2)), (Lists{{0, 1}, {-1}, {4}}));
  EXPECT_EQ(read(five.assert_cardinality(5)), (Lists{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_EQ(read(five.assert_cardinality(6)), (Lists{{0}, {1}, {2}, {3}, {4}, {-1}}));
  EXPECT_EQ(read(five.assert_cardinality(kInfinite)).back(), (std::vector<int64_t>{-1}));
}

TEST(Memory, AGeneratorMayWriteToWhatItGave) {
  const Dataset dataset = Dataset::from_generator([]() -> Dataset::Generator {
    return [row = torch::zeros({1}, at::kLong)]() mutable -> std::optional<Element> {
      if (row.item<int64_t>() == 5) return std::nullopt;
      return Element(row.add_(1));
    };
  });
  EXPECT_EQ(counted(read(dataset.shuffle(3))), (std::multiset<int64_t>{1, 2, 3, 4, 5}));
}

// A map may write to its element while the model has another of the same batch saved for backward.
TEST(Memory, RowsOfABatchCountTheirVersionsApart) {
  const auto iterator = Dataset::range(6).batch(6).unbatch().iterator();
  std::optional<Element> second;
  const auto first = iterator->next();
  second = iterator->next();
  const auto version = first->value().tensor()._version();
  Tensor(second->value().tensor()).add_(10);
  EXPECT_EQ(first->value().tensor()._version(), version);
  EXPECT_EQ(number(*first), 0);
  EXPECT_EQ(number(*second), 11);
}

Dataset of_large_rows() {
  return Dataset::range(6).map(
      [](const Element& x) { return Element(torch::full({1 << 18}, number(x), at::kLong)); });
}

TEST(Memory, OfALargeBatchIsUsedAgainOnceNobodyHasTheBatch) {
  const auto iterator = of_large_rows().repeat().batch(2).iterator();
  std::optional<Element> other;
  std::optional<Element> batch;
  batch = iterator->next();
  const void* first = batch->value().tensor().data_ptr();
  other = iterator->next();
  EXPECT_NE(other->value().tensor().data_ptr(), first);
  batch = {};
  batch = iterator->next();
  EXPECT_EQ(batch->value().tensor().data_ptr(), first);
}

TEST(Memory, OfABatchThatIsKeptIsLeftAlone) {
  const auto iterator = of_large_rows().repeat(4).batch(2).iterator();
  std::vector<Tensor> rows;  // a row of each batch, the batches themselves are dropped
  while (const auto batch = iterator->next()) rows.push_back(batch->value().tensor()[1]);
  ASSERT_EQ(rows.size(), 12u);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto expected = static_cast<int64_t>(2 * i + 1) % 6;
    EXPECT_EQ(rows[i].min().item<int64_t>(), expected);
    EXPECT_EQ(rows[i].max().item<int64_t>(), expected);
  }
}

TEST(Batch, OfMapsTellsOfRowsThatDoNotFit) {
  const auto ragged = Dataset::range(4).map(
      [](const Element& x) { return Element(torch::zeros({number(x) == 2 ? 3 : 2})); });
  const auto iterator = ragged.batch(4).iterator();
  std::optional<Element> batch;
  EXPECT_THAT(error_of([&] { batch = iterator->next(); }).what(),
              ::testing::AllOf(HasSubstr("[2]"), HasSubstr("[3]")));
  // Rows with strings, in any layout, are joined.
  const auto mixed = Dataset::range(3).map([](const Element& x) {
    return Element::tuple({Value(Strings(std::vector<std::string>{std::to_string(number(x))})),
                           torch::stack({torch::zeros({2}), torch::ones({2})}).t() * number(x)});
  });
  const auto joined = mixed.batch(3).iterator();
  ASSERT_TRUE(batch = joined->next());
  EXPECT_EQ(batch->part(0).value().strings()[2], "2");
  EXPECT_TRUE(batch->part(1).value().tensor().equal(
      torch::tensor({0., 0., 0., 0., 0., 1., 0., 1., 0., 2., 0., 2.}, at::kFloat).view({3, 2, 2})));
}

TEST(Memory, ThatAStageHoldsIsBounded) {
  data::internal::HeldMemory held("cache()", "keep them in a file", 100);
  EXPECT_TRUE(held.add(60));
  EXPECT_TRUE(held.add(40));
  EXPECT_FALSE(held.add(1));
  EXPECT_THAT(error_of([&] { std::rethrow_exception(held.error()); }).what(),
              ::testing::AllOf(HasSubstr("cache() holds 3 elements"), HasSubstr("in a file")));
  held.clear();
  EXPECT_TRUE(held.add(100));
}

TEST(Memory, RowsMayBeGivenAnotherShapeInPlace) {
  const Dataset dataset = number_files({"0-4"}).map([](const Element& x) {
    Tensor row = x.value().tensor();
    row.unsqueeze_(0);
    return Element(row);
  });
  EXPECT_EQ(read(dataset), (Lists{{0}, {1}, {2}, {3}}));
}

TEST(Memory, ARowOfABlockCountsItsShare) {
  data::internal::StreamElement item;
  item.block = std::make_shared<Element>(torch::zeros({8, 3}));
  item.row = 2;
  EXPECT_EQ(data::internal::size_in_bytes(item), 12u);
  item.settle();
  EXPECT_EQ(data::internal::size_in_bytes(item), 12u);
}

TEST(Memory, AShuffleKeepsLargeRowsAndNotTheBlocksTheyCameIn) {
  data::internal::StreamElement large, small;
  large.block = std::make_shared<Element>(torch::ones({4, 1000}));
  small.block = std::make_shared<Element>(torch::ones({4, 2}));
  data::internal::hold(large);
  data::internal::hold(small);
  EXPECT_EQ(large.block, nullptr);
  EXPECT_EQ(large.element.value().tensor().storage().nbytes(), 4000u);
  EXPECT_NE(small.block, nullptr);
}

TEST(Stopping, EndsAStageThatWouldSearchForever) {
  const auto left = std::make_shared<std::atomic<int64_t>>(2);
  auto iterator = Dataset::range(10)
                      .repeat()
                      .filter([left](const Element&) { return left->fetch_sub(1) > 0; })
                      .prefetch(1)
                      .iterator();
  ASSERT_TRUE(iterator->next());
  iterator.reset();  // while the thread of prefetch() searches for a third element
}

// A replica without rows needs the shape of an element, and there is none to find.
TEST(Stopping, EndsTheSearchForAnElementThatShowsTheShapes) {
  const Dataset dataset = Dataset::range(1)
                              .repeat()
                              .map([](const Element&) -> Element { throw corrupt("unreadable"); })
                              .global_batch(1);
  const auto iterator = dataset.iterator({.sharding = {.num_replicas = 2, .replica = 1}});
  EXPECT_THAT(error_of([&] { iterator->next(); }).what(), HasSubstr("unreadable"));
}

// A replica without rows of an unreadable part throws the same error as the replica that has them.
TEST(Stopping, AnUnreadablePartIsTheErrorOfEveryReplica) {
  const Dataset missing = Dataset::from_files({"/nowhere/file.txt"}, data::text_line_format())
                              .with_options({.auto_shard_policy = AutoShardPolicy::kData});
  const Dataset broken =
      Dataset::range(1).map([](const Element&) -> Element { throw corrupt("unreadable"); });
  for (const auto& [dataset, kind] :
       {std::pair(missing, ErrorKind::kNotFound), std::pair(broken, ErrorKind::kCorrupt)}) {
    for (const int64_t replica : {0, 1, 2}) {
      const auto iterator =
          dataset.global_batch(4).iterator({.sharding = {.num_replicas = 3, .replica = replica}});
      EXPECT_EQ(error_of([&] { iterator->next(); }).kind(), kind) << replica;
    }
  }
}

TEST(Rebatch, HandsItsBatchesToReplicasInTurn) {
  const Dataset dataset = Dataset::range(11).batch(4).rebatch({2, 1});
  const auto of = [&](int64_t replica, int64_t replicas) {
    return read(dataset, {.sharding = {.num_replicas = replicas, .replica = replica}});
  };
  EXPECT_EQ(of(0, 1), (Lists{{0, 1}, {2}, {3, 4}, {5}, {6, 7}, {8}, {9, 10}}));
  EXPECT_EQ(of(0, 2), (Lists{{0, 1}, {3, 4}, {6, 7}, {9, 10}}));
  EXPECT_EQ(of(1, 2), (Lists{{2}, {5}, {8}, {}}));
  // All replicas have the same position, from which any number of them continues.
  const auto one = dataset.iterator({.sharding = {.num_replicas = 2, .replica = 0}});
  const auto other = dataset.iterator({.sharding = {.num_replicas = 2, .replica = 1}});
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(one->save(), other->save());
    one->next();
    other->next();
  }
  EXPECT_EQ(one->save(), other->save());
}

TEST(Times, OfDataSetsMadeOnTheWayAreAddedUp) {
  const auto iterator = Dataset::range(20)
                            .flat_map([](const Element& x) { return Dataset::range(number(x)); })
                            .iterator();
  rest_of(*iterator);
  EXPECT_THAT(iterator->times(), ::testing::SizeIs(3));
  EXPECT_THAT(
      describe_longest({{"a", Seconds(0.5), 1}, {"b", Seconds(2), 1}, {"c", Seconds(1), 1}}, 2),
      testing::Eq("b 2.0 s, c 1.0 s"));
}

// Two inputs whose elements are numbered alike draw different numbers.
TEST(KeyedMaps, DrawOtherNumbersForEachPartOfAConcatenation) {
  const Dataset dataset =
      Dataset::range(4).concatenate(Dataset::range(4)).map([](const Element&, RandomKey key) {
        return Element(torch::scalar_tensor(
            static_cast<int64_t>(Random(key).uniform_below(uint64_t{1} << 40)), at::kLong));
      });
  const auto drawn = counted(read(dataset));
  EXPECT_EQ(std::set<int64_t>(drawn.begin(), drawn.end()).size(), 8u);
}

TEST(KeyedMaps, DrawOtherNumbersInEachEpochOfAnInterleave) {
  const Dataset dataset =
      Dataset::range(3)
          .repeat(2)
          .flat_map([](const Element& x) { return Dataset::from_tensors(x); })
          .map([](const Element&, RandomKey key) {
            return Element(torch::scalar_tensor(
                static_cast<int64_t>(Random(key).uniform_below(uint64_t{1} << 40)), at::kLong));
          });
  const auto drawn = counted(read(dataset));
  EXPECT_EQ(std::set<int64_t>(drawn.begin(), drawn.end()).size(), 6u);
}

TEST(AutoShard, KnowsTheBatchesOfEveryBranch) {
  const auto of = [](int64_t n) { return Dataset::range(32).global_batch(n); };
  EXPECT_TRUE(data::ends_with_global_batch(of(8).concatenate(of(8))));
  EXPECT_EQ(data::batch_size_of(Dataset::zip({of(8), of(8)})).value(), 8);
  EXPECT_THAT(error_of([&] { data::batch_size_of(of(8).concatenate(of(4))).value(); }).what(),
              HasSubstr("batches of 8 and of 4"));
  EXPECT_EQ(data::batch_size_of(of(8).rebatch({4})).value(), 4);
}

TEST(AutoShard, GivesEachWorkerACacheFileOfItsOwn) {
  TempDirectory directory;
  const Dataset dataset = number_files({"0-3", "10-13"}).cache(directory / "c");
  for (int64_t worker = 0; worker < 2; ++worker) {
    const auto mine = data::auto_shard(dataset, 2, worker).dataset;
    EXPECT_EQ(read(mine), read(mine));
  }
  EXPECT_TRUE(local_file_system().exists(directory / "c.1-of-2").value());
}

TEST(AutoShard, LeavesAloneWhatIsShardedByHand) {
  const Dataset dataset = Dataset::range(8).shard(2, 1);
  const data::AutoSharded sharded = data::auto_shard(dataset, 2, 0);
  EXPECT_EQ(sharded.applied, AutoShardPolicy::kOff);
  EXPECT_EQ(read(sharded.dataset), read(dataset));
}

TEST(AutoShard, SaysSoWhereNobodyKnowsHowManyFilesThereAre) {
  const Dataset names =
      Dataset::from_tensor_slices(Element(Strings(std::vector<std::string>{"0-3", "10-13"})))
          .filter([](const Element&) { return true; });
  const auto sharded = data::auto_shard(names.flat_map([](const Element& name) {
    return number_files({std::string(name.value().strings()[0])});
  }),
                                        2, 1);
  EXPECT_EQ(sharded.why, "files are divided: worker 1 of 2 reads its part");
  EXPECT_EQ(read(sharded.dataset), (Lists{{10}, {11}, {12}}));
}

}  // namespace
}  // namespace muster::inline v0_1
