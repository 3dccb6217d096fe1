// Stages that carry something along: take_while(), unique(), scan(), reduce(), and seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/data/internal/watched_source.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Element int64_of(int64_t number) { return Element(torch::scalar_tensor(number, at::kLong)); }
Element sum_of(const Element& state, const Element& element) {
  return Element(state.value().tensor() + element.value().tensor());
}
std::pair<Element, Element> running_sum(const Element& state, const Element& element) {
  return {sum_of(state, element), sum_of(state, element)};
}
std::string first_error_of(const Dataset& dataset) {
  const auto iterator = dataset.iterator();
  const Error error = error_of([&] {
    while (iterator->next()) {
    }
  });
  return error.what();
}

TEST(TakeWhile, ReadsNothingBehindTheElementThatEndsIt) {
  const auto source = std::make_shared<WatchedSource>(100);
  const Dataset dataset =
      Dataset::from_source(source).take_while([](const Element& x) { return number(x) < 3; });
  EXPECT_EQ(dataset.cardinality(), kUnknown);
  EXPECT_EQ(read(dataset), (Lists{{0}, {1}, {2}}));
  EXPECT_EQ(source->read().size(), 4u);
  // Every pass begins anew.
  EXPECT_EQ(read(dataset.repeat(2)), (Lists{{0}, {1}, {2}, {0}, {1}, {2}}));
  EXPECT_EQ(
      read(Dataset::range(4).repeat().take_while([](const Element& x) { return number(x) < 2; })),
      (Lists{{0}, {1}}));
}

TEST(TakeWhile, AnErrorOfItsFunctionStaysAtItsPlace) {
  const Dataset dataset = Dataset::range(5).take_while(
      [](const Element& x) {
        if (number(x) == 2) throw std::runtime_error("not this one");
        return number(x) < 4;
      },
      "small");
  EXPECT_EQ(read(dataset), (Lists{{0}, {1}, {-1}, {3}}));
  EXPECT_THAT(first_error_of(dataset),
              HasSubstr("take_while 'small' failed on source element 2 (pass 0)"));
}

TEST(Unique, GivesEveryElementOnceInAPass) {
  const auto modulo = [](const Element& x) { return Element(x.value().tensor() % 3); };
  const Dataset dataset = Dataset::range(8).map(modulo).unique();
  EXPECT_EQ(read(dataset), (Lists{{0}, {1}, {2}}));
  EXPECT_EQ(read(dataset.repeat(2)), (Lists{{0}, {1}, {2}, {0}, {1}, {2}}));
  const Dataset words = Dataset::from_tensor_slices(Strings({"a", "b", "a", "", ""}))
                            .unique()
                            .map([](const Element& x) {
                              return int64_of(static_cast<int64_t>(x.value().strings()[0].size()));
                            });
  EXPECT_EQ(read(words), (Lists{{1}, {1}, {0}}));
  // Shapes and dtypes distinguish elements, places of elements do not.
  const Dataset rows = Dataset::from_tensor_slices(torch::zeros({4, 2})).unique();
  EXPECT_EQ(rows.batch(9).cardinality(), kUnknown);
  const auto iterator = rows.iterator();
  EXPECT_TRUE(iterator->next());
  EXPECT_FALSE(iterator->next());
}

TEST(Scan, KnownCases) {
  EXPECT_EQ(read(Dataset::range(5).scan(int64_of(0), running_sum)),
            (Lists{{0}, {1}, {3}, {6}, {10}}));
  EXPECT_EQ(number(Dataset::range(5).reduce(int64_of(0), sum_of)), 10);
  EXPECT_EQ(Dataset::range(5).scan(int64_of(0), running_sum).cardinality(), 5);
}

TEST(Scan, EveryPassBeginsWithTheFirstStateWhateverIsWrittenToIt) {
  const auto in_place = [](const Element& state, const Element& element) {
    Tensor sum = state.value().tensor();
    sum.add_(element.value().tensor());
    return std::pair(Element(sum), Element(sum.clone()));
  };
  EXPECT_EQ(read(Dataset::range(1, 4).scan(int64_of(10), in_place).repeat(2)),
            (Lists{{11}, {13}, {16}, {11}, {13}, {16}}));
}

TEST(Scan, AnErrorStaysAtItsPlaceAndLeavesTheState) {
  const Dataset dataset = Dataset::range(5).scan(
      int64_of(0),
      [](const Element& state, const Element& x) {
        if (number(x) == 1) throw std::runtime_error("not this one");
        if (number(x) == 2) return std::pair(Element(torch::zeros({})), x);
        if (number(x) == 3) return std::pair(state, Element(Tensor()));
        return running_sum(state, x);
      },
      "sum");
  EXPECT_EQ(read(dataset), (Lists{{0}, {-1}, {-1}, {-1}, {4}}));
  EXPECT_THAT(first_error_of(dataset.skip(0)),
              HasSubstr("scan 'sum' failed on source element 1 (pass 0)"));
  EXPECT_THAT(
      first_error_of(dataset.skip(2)),
      AllOf(HasSubstr("source element 2"), HasSubstr("it made the state float32, which began "
                                                     "as int64")));
  EXPECT_THAT(first_error_of(dataset.skip(3)), HasSubstr("undefined tensor"));
}

TEST(Scan, APositionOfAnotherStateIsRefused) {
  const auto of = [](Element initial) {
    return Dataset::range(5)
        .scan(std::move(initial),
              [](const Element& state, const Element& x) { return std::pair(state, x); })
        .iterator();
  };
  const auto saved = of(int64_of(1))->save();
  EXPECT_EQ(error_of([&] { of(Element(torch::zeros({})))->restore(saved); }).kind(),
            ErrorKind::kInvalidArgument);
  auto cut = saved;
  for (auto& number : cut["position"]) number = 3;
  EXPECT_EQ(error_of([&] { of(int64_of(1))->restore(cut); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(Reduce, NamesTheElementItFailsOn) {
  const auto careful = [](const Element& state, const Element& x) {
    if (number(x) == 3) throw std::runtime_error("not this one");
    return sum_of(state, x);
  };
  EXPECT_THAT(
      error_of([&] { (void)Dataset::range(5).reduce(int64_of(0), careful); }).what(),
      AllOf(HasSubstr("reduce failed on element 3 of range(5)"), HasSubstr("not this one")));
  EXPECT_THAT(
      error_of([&] { (void)Dataset::range(5).repeat().reduce(int64_of(0), sum_of); }).what(),
      AllOf(HasSubstr("has no end"), HasSubstr("take(n)")));
  const auto nothing = [](const Element&, const Element&) { return Element(Tensor()); };
  EXPECT_EQ(error_of([&] { (void)Dataset::range(5).reduce(int64_of(0), nothing); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(number(Dataset::range(0).reduce(int64_of(7), sum_of)), 7);
}

// The order follows the data set's seed, whatever the iterator's is.
TEST(Seed, OfADataSetIsItsOwn) {
  const auto drawn = [](const Element& x, RandomKey key) {
    return Element(x.value().tensor() * 1000 +
                   static_cast<int64_t>(Random(key).uniform_below(1000)));
  };
  const Dataset plain = Dataset::range(20).shuffle(20).map(drawn).repeat(2);
  for (const Dataset& seeded :
       {plain.with_seed(4), plain.with_seed(4).batch(1), plain.batch(1).with_seed(4)}) {
    EXPECT_EQ(flat(seeded, 1), flat(plain, 4)) << seeded.describe();
    EXPECT_EQ(flat(seeded, 2), flat(plain, 4)) << seeded.describe();
  }
  // A stage after it draws by the iterator's seed, and a stage with a seed of its own keeps it.
  EXPECT_NE(flat(Dataset::range(20).with_seed(4).shuffle(20), 1),
            flat(Dataset::range(20).with_seed(4).shuffle(20), 2));
  EXPECT_EQ(flat(Dataset::range(20).shuffle(20, {.seed = 9}).with_seed(4), 1),
            flat(Dataset::range(20).shuffle(20, {.seed = 9}), 4));
  EXPECT_EQ(flat(plain.with_seed(4).with_seed(5), 1), flat(plain, 4));
  EXPECT_NE(plain.with_seed(4).iterator()->save(), plain.with_seed(5).iterator()->save());
  EXPECT_THROW(plain.with_seed(4).iterator()->restore(plain.with_seed(5).iterator()->save()),
               Error);
}

TEST(Seed, KeepsReplicasTogether) {
  const Dataset dataset = Dataset::range(20).shuffle(20).batch(3).with_seed(4);
  std::vector<int64_t> all;
  const auto one = dataset.iterator({.sharding = {.num_replicas = 2, .replica = 0}});
  const auto other = dataset.iterator({.sharding = {.num_replicas = 2, .replica = 1}});
  std::optional<Element> element;
  for (int round = 0; round < 4; ++round) {
    for (Iterator* iterator : {one.get(), other.get()}) {
      ASSERT_TRUE(element = iterator->next());
      for (const int64_t row : numbers_in(*element)) all.push_back(row);
    }
  }
  EXPECT_EQ(all, flat(Dataset::range(20).shuffle(20), 4));
  EXPECT_EQ(Dataset::range(9).batch(2).with_seed(1).iterator()->remaining(), 5);
}

TEST(Random, DrawsNumbersThatAreAllAlikeAndOthersInEachPass) {
  const Dataset dataset = Dataset::random(5);
  EXPECT_EQ(dataset.cardinality(), kInfinite);
  const std::vector<int64_t> drawn = flat(dataset.take(4000).repeat(2), 8);
  EXPECT_EQ(drawn, flat(dataset.take(4000).repeat(2), 9));
  EXPECT_NE(flat(Dataset::random().take(5), 8), flat(Dataset::random().take(5), 9));
  double sum = 0;
  for (const int64_t number : drawn) {
    ASSERT_GE(number, 0);
    ASSERT_LT(number, int64_t{1} << 32);
    sum += static_cast<double>(number) * 0x1p-32;
  }
  EXPECT_NEAR(sum / static_cast<double>(drawn.size()), 0.5, 0.02);
  EXPECT_NE(std::vector(drawn.begin(), drawn.begin() + 4000),
            std::vector(drawn.begin() + 4000, drawn.end()));
}

}  // namespace
}  // namespace muster::inline v0_1
