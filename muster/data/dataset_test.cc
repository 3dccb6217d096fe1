#include "muster/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/data/internal/watched_source.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int64_t> count_to(int64_t n) {
  std::vector<int64_t> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), int64_t{0});
  return values;
}

// Two int64 may lie further apart than the largest of them.
TEST(Range, OfTheLargestNumbers) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(flat(Dataset::range(kLeast, kMost, kMost)), ElementsAre(kLeast, -1, kMost - 1));
  EXPECT_THAT(flat(Dataset::range(kMost, kLeast, kLeast)), ElementsAre(kMost, -1));
  EXPECT_THAT(flat(Dataset::range(kMost - 1, kMost, 5)), ElementsAre(kMost - 1));
  EXPECT_EQ(Dataset::range(kLeast, kMost, 3).cardinality(), 6148914691236517205);
  EXPECT_EQ(Dataset::range(0, kMost).cardinality(), kMost);
  EXPECT_EQ(read(Dataset::range(kLeast, kMost, kMost).batch(3)), (Lists{{kLeast, -1, kMost - 1}}));
  EXPECT_THROW((void)Dataset::range(kLeast, kMost), Error);
}

TEST(Dataset, TransformationsFollowTfData) {
  EXPECT_EQ(read(Dataset::range(10).batch(4, {.drop_remainder = true})),
            (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(read(Dataset::range(5).batch(2).repeat(2)),
            (Lists{{0, 1}, {2, 3}, {4}, {0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(read(Dataset::range(5).repeat(2).batch(4)),
            (Lists{{0, 1, 2, 3}, {4, 0, 1, 2}, {3, 4}}));
  EXPECT_THAT(flat(Dataset::range(3).take(-1)), ElementsAre(0, 1, 2));
  EXPECT_THAT(flat(Dataset::range(3).skip(-1)), ElementsAre());
  EXPECT_THAT(flat(Dataset::range(7).skip(2).take(3)), ElementsAre(2, 3, 4));
  EXPECT_THAT(flat(Dataset::range(7).shard(3, 0)), ElementsAre(0, 3, 6));
  EXPECT_THAT(flat(Dataset::range(7).shard(3, 2)), ElementsAre(2, 5));
  EXPECT_THAT(flat(Dataset::range(0).shard(2, 1)), ElementsAre());
  EXPECT_THAT(flat(Dataset::range(2).repeat(0)), ElementsAre());
  EXPECT_THAT(flat(Dataset::range(0).repeat()), ElementsAre());
  EXPECT_THAT(flat(Dataset::range(3).batch(5, {.drop_remainder = true}).repeat()), ElementsAre());
  EXPECT_THAT(flat(Dataset::range(3).repeat().take(7)), ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_EQ(read(Dataset::range(8).batch(2).batch(2)), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(flat(Dataset::range(20).shuffle(1)), count_to(20));
}

TEST(Dataset, BadArgumentsAreNamed) {
  const Dataset range = Dataset::range(4);
  const Error shard = error_of([&] { range.shard(2, 2); });
  EXPECT_EQ(shard.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(shard.message(), HasSubstr("index must be between 0 and num_shards-1"));
  const std::vector<std::function<void()>> calls{
      [&] { range.shard(0, 0); },
      [&] { range.batch(0); },
      [&] { range.global_batch(-1); },
      [&] { range.batch(int64_t{1} << 31); },
      [&] { range.global_batch(std::numeric_limits<int64_t>::max()); },
      [&] { range.shuffle(0); },
      [&] { Dataset::range(0).shuffle(0); },
      [&] { range.repeat(-2); },
      [&] { range.take(-2); },
      [&] { range.skip(-2); },
      [&] { range.prefetch(-1); },
      [&] { Dataset::range(-1); },
      [&] { range.map(Dataset::MapFunction()); },
      [&] { Dataset::from_tensor_slices(Element()); },
      [&] { Dataset::from_tensor_slices(Element(torch::zeros({}))); },
      [&] { range.batch(2).iterator({.sharding = {.num_replicas = 2, .replica = 2}}); }};
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(error_of(calls[i]).kind(), ErrorKind::kInvalidArgument) << "call " << i;
  }

  const Error unequal = error_of([] {
    Dataset::from_tensor_slices(Element::tuple({torch::zeros({3, 2}), torch::zeros({4})}));
  });
  EXPECT_THAT(unequal.message(), AllOf(HasSubstr("float32[3, 2]"), HasSubstr("float32[4]")));

  // shuffle(cardinality()) of nothing.
  const Error empty = error_of([&] { range.take(0).shuffle(0); });
  EXPECT_EQ(empty.message(), "the data set range(4) > take(0) is empty (0 rows)");
  EXPECT_THAT(empty.hint(), HasSubstr("its files"));

  const Error unbatched =
      error_of([&] { range.shuffle(2).iterator({.sharding = {.num_replicas = 2}}); });
  // A data set that has batches already needs no other ones around them.
  EXPECT_THAT(unbatched.hint(), HasSubstr("unbatch().global_batch(n)"));
  EXPECT_EQ(unbatched.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(unbatched.what(), AllOf(HasSubstr("range(4) > shuffle(2)"), HasSubstr("batch(")));
}

TEST(Dataset, KnowsItsCardinality) {
  const Dataset ten = Dataset::range(10);
  EXPECT_EQ(ten.repeat().cardinality(), kInfinite);
  EXPECT_EQ(ten.repeat().take(25).cardinality(), 25);
  EXPECT_EQ(ten.repeat().skip(25).cardinality(), kInfinite);
  EXPECT_EQ(ten.repeat(3).batch(4).cardinality(), 8);
  EXPECT_EQ(ten.batch(4).repeat(3).cardinality(), 9);
  EXPECT_EQ(ten.batch(4, {.drop_remainder = true}).cardinality(), 2);
  EXPECT_EQ(ten.shard(3, 0).cardinality(), 4);
  EXPECT_EQ(Dataset::range(0).repeat().cardinality(), 0);
  EXPECT_EQ(ten.repeat(std::numeric_limits<int64_t>::max()).batch(4).cardinality(), kInfinite);
  EXPECT_EQ(Dataset::from_tensors(Element(torch::zeros({5}))).cardinality(), 1);
  EXPECT_FALSE(ten.batch(2).hand_sharded());
  EXPECT_TRUE(ten.shard(2, 0).shuffle(4).batch(2).hand_sharded());
  EXPECT_EQ(ten.shuffle(4).repeat().batch(2).prefetch().describe(),
            "range(10) > shuffle(4) > repeat > batch(2) > prefetch(2)");
}

TEST(Shuffle, IsAWindowOfTheBufferAndAPermutationEveryEpoch) {
  const auto order = flat(Dataset::range(100).shuffle(10).repeat(2), 1);
  ASSERT_EQ(order.size(), 200u);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const std::vector<int64_t> one(order.begin() + epoch * 100, order.begin() + epoch * 100 + 100);
    EXPECT_EQ(sorted(one), count_to(100));
    EXPECT_NE(one, count_to(100));
    for (int64_t at = 0; at < 100; ++at) EXPECT_LE(one[at], at + 9) << "output " << at;
  }
}

TEST(Shuffle, OrdersComeFromSeedAndEpoch) {
  const auto epochs = [](const ShuffleOptions& options, uint64_t seed) {
    const auto all = flat(Dataset::range(50).shuffle(50, options).repeat(2), seed);
    return std::pair(std::vector(all.begin(), all.begin() + 50),
                     std::vector(all.begin() + 50, all.end()));
  };
  const auto plain = epochs({}, 1);
  EXPECT_NE(plain.first, plain.second);
  EXPECT_EQ(plain, epochs({}, 1));
  EXPECT_NE(plain.first, epochs({}, 2).first);
  EXPECT_EQ(epochs({.seed = 9}, 1), epochs({.seed = 9}, 2));
  const auto fixed = epochs({.reshuffle_each_iteration = false}, 1);
  EXPECT_EQ(fixed.first, fixed.second);
}

TEST(Shuffle, AFullBufferGivesEveryPermutationEquallyOften) {
  constexpr int kTrials = 24000;
  std::map<std::vector<int64_t>, int> counts;
  const auto iterator =
      Dataset::range(4).shuffle(100).repeat(kTrials).batch(4).iterator({.seed = 3});
  while (const auto element = iterator->next()) ++counts[numbers_in(*element)];
  ASSERT_EQ(counts.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) {
    chi_square += (count - kTrials / 24.0) * (count - kTrials / 24.0) / (kTrials / 24.0);
  }
  // 23 degrees of freedom: 49.7 is exceeded once in a thousand.
  EXPECT_LT(chi_square, 49.7);
}

TEST(Dataset, KeepsStructureAndStrings) {
  const Element element =
      Element::tuple({Element::dict({{"name", Element(Value(Strings({"a", "bc", "", "def"})))},
                                     {"x", Element(torch::arange(8).to(at::kFloat).view({4, 2}))}}),
                      Element(torch::arange(4).to(at::kByte))});
  const auto iterator = Dataset::from_tensor_slices(element).batch(3).iterator();
  std::optional<Element> batch;
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(batch->describe(), "({name: string[3], x: float32[3, 2]}, uint8[3])");
  EXPECT_EQ(batch->values()[0].strings()[1], "bc");
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(batch->values()[0].strings()[0], "def");
  EXPECT_TRUE(torch::equal(batch->values()[1].tensor(), torch::tensor({{6.f, 7.f}})));

  const auto single = Dataset::from_tensor_slices(element).skip(1).iterator();
  ASSERT_TRUE(batch = single->next());
  EXPECT_EQ(batch->describe(), "({name: string[], x: float32[2]}, uint8[])");
}

TEST(Dataset, ElementsCanBeWrittenTo) {
  const Tensor data = torch::arange(6).view({3, 2});
  const auto zero = [](const Element& element) {
    element.value().tensor().zero_();
    return element;
  };
  flat(Dataset::from_tensor_slices(Element(data)).map(zero));
  flat(Dataset::from_tensor_slices(Element(data)).batch(2).map(zero));
  flat(Dataset::from_tensors(Element(data)).map(zero));
  EXPECT_TRUE(torch::equal(data, torch::arange(6).view({3, 2})));
}

TEST(Map, ErrorsComeAtTheirPlaceAndTheIteratorContinues) {
  const auto odd_one_out = [](const Element& element) -> Element {
    if (numbers_in(element)[0] == 4) throw std::runtime_error("cannot decode");
    return element;
  };
  const Dataset mapped = Dataset::range(7).map(odd_one_out, {.name = "decode"});
  for (const Dataset& dataset : {mapped, mapped.prefetch(2),
                                 Dataset::range(7).batch(1).map(odd_one_out, {.name = "decode"})}) {
    const auto iterator = dataset.iterator();
    std::optional<Element> element;
    std::vector<int64_t> seen;
    int errors = 0;
    json saved;
    for (bool more = true; more;) {
      try {
        more = (element = iterator->next()).has_value();
        if (more) seen.push_back(numbers_in(*element)[0]);
      } catch (const Error& error) {
        ++errors;
        EXPECT_EQ(seen.size(), 4u);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("'decode'"), HasSubstr("cannot decode"),
                                        HasSubstr("4 (pass 0)"), HasSubstr("range(7)")));
        saved = iterator->save();
      }
    }
    EXPECT_EQ(errors, 1);
    EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 5, 6));
    const auto again = dataset.iterator();
    again->restore(saved);
    EXPECT_EQ(rest_of(*again), (Lists{{5}, {6}}));
  }

  // A failing element takes its batch with it, not the batches after it.
  const auto batches = mapped.batch(3).iterator();
  std::optional<Element> element;
  ASSERT_TRUE(element = batches->next());
  EXPECT_THROW((element = batches->next()), Error);
  ASSERT_TRUE(element = batches->next());
  EXPECT_THAT(numbers_in(*element), ElementsAre(6));
}

TEST(Map, KeysNameTheElementNotItsPlace) {
  const auto drawn = [](const Dataset& before, uint64_t seed) {
    std::map<int64_t, std::set<uint64_t>> keys;
    std::mutex mutex;
    flat(before.map([&](const Element& element, RandomKey key) {
      const std::lock_guard lock(mutex);
      keys[numbers_in(element)[0]].insert(key.key ^ key.stream);
      return element;
    }),
         seed);
    return keys;
  };
  const auto plain = drawn(Dataset::range(20), 1);
  EXPECT_EQ(drawn(Dataset::range(20).shuffle(20), 1), plain);
  EXPECT_NE(drawn(Dataset::range(20), 2), plain);
  const auto epochs = drawn(Dataset::range(20).shuffle(5).repeat(3), 1);
  for (const auto& [value, keys] : epochs) {
    EXPECT_EQ(keys.size(), 3u);
    EXPECT_TRUE(keys.contains(*plain.at(value).begin()));
  }
}

TEST(Batch, ShapesThatDifferAreShown) {
  const auto ragged = Dataset::range(3)
                          .map([](const Element& element) {
                            return Element(torch::zeros({1 + numbers_in(element)[0]}));
                          })
                          .batch(2)
                          .iterator();
  const Error error = error_of([&] { ragged->next(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("float32[1]"), HasSubstr("float32[2]")));
  EXPECT_TRUE(ragged->next());
}

TEST(Sharding, OnlyOwnRowsAreRead) {
  const auto source = std::make_shared<WatchedSource>(20);
  const auto iterator = Dataset::from_source(source)
                            .shuffle(20)
                            .map([](const Element& element) { return element; })
                            .batch(2)
                            .iterator({.seed = 4, .sharding = {.num_replicas = 3, .replica = 1}});
  std::vector<int64_t> seen;
  for (const auto& list : rest_of(*iterator)) seen.insert(seen.end(), list.begin(), list.end());
  EXPECT_EQ(source->read(), seen);
  EXPECT_EQ(seen.size(), 6u);  // of the last round, [18, 20), only the shape
}

TEST(Sharding, AReplicaWithoutRowsGetsTheRightShapes) {
  const Element element = Element::dict({{"image", Element(torch::zeros({3, 4, 5}))},
                                         {"label", Element(torch::zeros({3}, at::kLong))}});
  const auto to_float = [](const Element& batch) {
    return batch.transform(
        [](const Value& value) { return Value(value.tensor().to(at::kDouble)); });
  };
  const Dataset slices = Dataset::from_tensor_slices(element);
  const IteratorOptions last{.sharding = {.num_replicas = 4, .replica = 3}};
  for (const auto& [dataset, described] :
       {std::pair{slices.batch(1), "{image: float32[0, 4, 5], label: int64[0]}"},
        std::pair{slices.map(to_float).batch(1), "{image: float64[0, 4, 5], label: float64[0]}"},
        std::pair{slices.batch(1).map(to_float), "{image: float64[0, 4, 5], label: float64[0]}"},
        std::pair{slices.global_batch(3).prefetch(), "{image: float32[0, 4, 5], label: int64[0]}"},
        std::pair{slices.batch(3).batch(1), "{image: float32[0, 3, 4, 5], label: int64[0, 3]}"}}) {
    const auto iterator = dataset.iterator(last);
    std::optional<Element> batch;
    ASSERT_TRUE(batch = iterator->next()) << dataset.describe();
    EXPECT_EQ(batch->describe(), described) << dataset.describe();
    EXPECT_FALSE(batch = iterator->next());
  }
}

TEST(Sharding, RoundsNeverStraddleEpochsWhenRepeatFollowsBatch) {
  const Dataset dataset = Dataset::range(5).batch(2).repeat(2);
  EXPECT_EQ(rest_of(*dataset.iterator({.sharding = {.num_replicas = 2, .replica = 0}})),
            (Lists{{0, 1}, {4}, {0, 1}, {4}}));
  EXPECT_EQ(rest_of(*dataset.iterator({.sharding = {.num_replicas = 2, .replica = 1}})),
            (Lists{{2, 3}, {}, {2, 3}, {}}));
}

TEST(Prefetch, ReadsAheadAndNoFurther) {
  const auto source = std::make_shared<WatchedSource>(1000);
  const Dataset dataset = Dataset::from_source(source).batch(1).prefetch(3);
  {
    const auto iterator = dataset.iterator();
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(iterator->next());
    EXPECT_EQ(iterator->position(), (Position{0, 5, 5}));
  }
  // Handed out, queued, and one in the thread's hands.
  EXPECT_LE(source->read().size(), 5u + 3u + 1u);
  const auto never_read = dataset.iterator();
}

TEST(Prefetch, AClosedIteratorDoesNotFinishItsBatch) {
  constexpr int kSize = 3000;
  std::atomic<int> calls = 0;
  auto iterator = Dataset::range(2 * kSize)
                      .map([&](const Element& element) {
                        if (++calls > kSize)
                          std::this_thread::sleep_for(std::chrono::milliseconds(1));
                        return element;
                      })
                      .batch(kSize)
                      .prefetch(1)
                      .iterator();
  ASSERT_TRUE(iterator->next());
  await([&] { return calls > kSize; });
  iterator.reset();
  EXPECT_LT(calls, 2 * kSize);
}

}  // namespace
}  // namespace muster::inline v0_1
