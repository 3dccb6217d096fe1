// Saved positions: changes that are allowed before one is restored, and changes that are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/data/internal/watched_source.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Resume, ADroppedRemainderIsStillToCome) {
  for (const int64_t prefetch : {0, 2}) {
    const auto epochs = [&](int64_t n) {
      const Dataset batches = Dataset::range(10).repeat(n).batch(4, {.drop_remainder = true});
      return prefetch == 0 ? batches : batches.prefetch(prefetch);
    };
    const auto one = epochs(1).iterator({});
    EXPECT_EQ(rest_of(*one), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
    EXPECT_EQ(one->position().element_in_epoch, 8);
    const auto two = epochs(2).iterator({});
    two->restore(one->save());
    EXPECT_EQ(rest_of(*two), (Lists{{8, 9, 0, 1}, {2, 3, 4, 5}, {6, 7, 8, 9}}));
  }
}

// A queue would lose them.
TEST(Restore, SaysHowManyElementsOfAGeneratorArePassedOver) {
  const Dataset numbers = Dataset::from_generator([] {
    return [at = int64_t{0}]() mutable -> std::optional<Element> {
      return Element(torch::tensor(at++));
    };
  });
  const auto first = numbers.batch(7).iterator();
  std::optional<Element> element;
  for (int i = 0; i < 3; ++i) element = first->next();
  const auto second = numbers.batch(7).iterator();
  ::testing::internal::CaptureStderr();
  second->restore(first->save());
  log::flush();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("reading the generator from its beginning to element 21"),
                          HasSubstr("skipping the 21 elements before it"),
                          HasSubstr("such as a queue, loses them")));
  EXPECT_TRUE(element = second->next());
  EXPECT_EQ(element->value().tensor()[0].item<int64_t>(), 21);
}

TEST(Restore, ReadsNothingOfWhatWasTrainedOn) {
  const auto source = std::make_shared<WatchedSource>(100);
  const Dataset dataset = Dataset::from_source(source).shuffle(100).repeat().batch(10);
  const auto first = dataset.iterator();
  for (int i = 0; i < 17; ++i) first->next();
  EXPECT_EQ(first->position(), (Position{1, 70, 170}));
  const auto second = dataset.iterator();
  const size_t before = source->read().size();
  second->restore(first->save());
  EXPECT_EQ(second->position(), (Position{1, 70, 170}));
  EXPECT_EQ(source->read().size(), before);
  EXPECT_LT(first->save().dump().size(), 700u);
}

TEST(Restore, EpochsBatchSizeMapsAndPrefetchMayChange) {
  const Dataset shuffled = Dataset::range(10).shuffle(10);
  const auto first = shuffled.repeat(1).batch(4).iterator({.seed = 6});
  Lists trained;
  while (const auto element = first->next()) trained.push_back(numbers_in(*element));
  const auto second = shuffled.repeat(2)
                          .batch(5)
                          .map([](const Element& batch) { return batch; })
                          .prefetch()
                          .iterator();
  second->restore(first->save());
  std::vector<int64_t> rest;
  for (const auto& list : rest_of(*second)) rest.insert(rest.end(), list.begin(), list.end());
  const auto both = flat(shuffled.repeat(2), 6);
  EXPECT_EQ(rest, std::vector(both.begin() + 10, both.end()));
}

TEST(Restore, TheRemainingElementsAreKnownAtEveryPosition) {
  const Dataset ten = Dataset::range(10);
  const auto same = [](const Element& element) { return element; };
  const Dataset known[] = {
      ten,
      ten.repeat(2).shuffle(3),
      ten.batch(4),
      ten.shuffle(10).repeat(3).batch(4).map(same).prefetch(2),
      ten.map(same).repeat(2).batch(3, {.drop_remainder = true}),
      ten.prefetch(2).global_batch(5).prefetch(1),
      ten.repeat(0).batch(4),
  };
  for (const Dataset& dataset : known) {
    SCOPED_TRACE(dataset.describe());
    for (int64_t replicas = 1; replicas <= 2; ++replicas) {
      const IteratorOptions options{
          .sharding = {.num_replicas = replicas, .replica = replicas - 1}};
      if (replicas > 1 && dataset.describe().find("batch") == std::string::npos) continue;
      const auto iterator = dataset.iterator(options), restored = dataset.iterator(options);
      do {
        restored->restore(iterator->save());
        const auto rest = static_cast<int64_t>(rest_of(*restored).size());
        restored->restore(iterator->save());
        const int64_t remaining = restored->remaining();
        EXPECT_EQ(remaining, rest);
        EXPECT_EQ(iterator->remaining(), remaining);
      } while (iterator->next());
    }
  }
  EXPECT_EQ(ten.repeat().batch(2).iterator()->remaining(), kInfinite);
  for (const Dataset& dataset : {ten.take(5), ten.skip(2).batch(2), ten.batch(2).repeat(2),
                                 ten.shard(2, 0), ten.batch(2).batch(2)}) {
    EXPECT_EQ(dataset.iterator()->remaining(), kUnknown) << dataset.describe();
  }
}

TEST(Restore, APositionOfAnotherPipelineIsRefused) {
  const Dataset dataset = Dataset::range(10).shuffle(5).batch(2);
  const auto iterator = dataset.iterator({.seed = 1});
  ASSERT_TRUE(iterator->next());
  const auto reference = dataset.iterator({.seed = 1});
  reference->next();
  const Lists rest = rest_of(*reference);

  const auto refused = [&](const json& state) {
    const Error error = error_of([&] { iterator->restore(state); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << state.dump();
    return std::string(error.what());
  };
  EXPECT_THAT(refused(Dataset::range(10).repeat(2).batch(2).iterator()->save()),
              AllOf(HasSubstr("range > repeat > batch"), HasSubstr("range > shuffle > batch")));
  EXPECT_THAT(refused(Dataset::range(10).shuffle(4).batch(2).iterator()->save()),
              AllOf(HasSubstr("buffer"), HasSubstr("4"), HasSubstr("5")));
  EXPECT_THAT(refused(Dataset::range(12).shuffle(5).batch(2).iterator()->save()),
              AllOf(HasSubstr("10"), HasSubstr("12")));
  EXPECT_THAT(refused(Dataset::range(10).shuffle(5, {.seed = 8}).batch(2).iterator()->save()),
              HasSubstr("seed"));
  refused(json());
  refused(json::array());
  json other = dataset.iterator()->save();
  other["seed"] = -1;
  refused(other);
  other = dataset.iterator()->save();
  other["position"] = 4;
  refused(other);
  // Refused before anything changed.
  EXPECT_EQ(rest_of(*iterator), rest);

  json broken = dataset.iterator()->save();
  const json whole = broken["position"];
  broken["position"][0] = -3;
  EXPECT_THAT(refused(broken), HasSubstr("-3"));
  broken["position"] = whole;
  broken["position"][1] = 11;
  EXPECT_THAT(refused(broken), HasSubstr("11"));
  broken["position"] = {0};
  EXPECT_THAT(refused(broken), HasSubstr("cut short"));
  broken["position"] = whole;
  broken["position"].push_back(0);
  EXPECT_THAT(refused(broken), HasSubstr("more than"));
  broken["position"] = whole;
  broken["position"][0] = "two";
  EXPECT_THAT(refused(broken), HasSubstr("two"));
}

TEST(Restore, AHandShardedPositionStaysWithItsShard) {
  const auto make = [](int64_t shards, int64_t index) {
    return Dataset::range(10).shard(shards, index).batch(2).iterator();
  };
  const auto first = make(2, 1);
  first->next();
  const auto same = make(2, 1);
  same->restore(first->save());
  EXPECT_EQ(rest_of(*same), (Lists{{5, 7}, {9}}));
  const Error error = error_of([&] { make(3, 1)->restore(first->save()); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("num_shards"), HasSubstr("2"), HasSubstr("3")));
}

}  // namespace
}  // namespace muster::inline v0_1
