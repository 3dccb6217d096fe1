// One data set out of several: choose_from_datasets(), sample_from_datasets().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Dataset choices(std::vector<int64_t> numbers) {
  return Dataset::from_tensor_slices(Element(torch::tensor(numbers, at::kLong)));
}
Dataset hundreds(int64_t which, int64_t n) { return Dataset::range(100 * which, 100 * which + n); }

TEST(Choose, TakesWhatTheChoicesName) {
  const std::vector<Dataset> inputs{hundreds(0, 3), hundreds(1, 2), hundreds(2, 4)};
  EXPECT_EQ(read(Dataset::choose_from_datasets(inputs, choices({2, 0, 1, 2, 0}))),
            (Lists{{200}, {0}, {100}, {201}, {1}}));
  // The third choice of input 1 finds it empty.
  const std::vector<int64_t> numbers{1, 1, 0, 1, 2, 0};
  EXPECT_EQ(read(Dataset::choose_from_datasets(inputs, choices(numbers))),
            (Lists{{100}, {101}, {0}}));
  EXPECT_EQ(read(Dataset::choose_from_datasets(inputs, choices(numbers), false)),
            (Lists{{100}, {101}, {0}, {200}, {1}}));
  // It ends when all inputs have, although there are choices without end.
  EXPECT_EQ(read(Dataset::choose_from_datasets({hundreds(0, 1), hundreds(1, 2)},
                                               choices({0, 1}).repeat(), false)),
            (Lists{{0}, {100}, {101}}));
}

TEST(Choose, CountsWhatCanBeCounted) {
  const std::vector<Dataset> endless{hundreds(0, 3).repeat(), hundreds(1, 2).repeat()};
  EXPECT_EQ(Dataset::choose_from_datasets(endless, choices({0, 1, 1})).cardinality(), 3);
  EXPECT_EQ(Dataset::choose_from_datasets(endless, choices({0}).repeat()).cardinality(), kInfinite);
  EXPECT_EQ(Dataset::choose_from_datasets({hundreds(0, 3)}, choices({0, 0})).cardinality(),
            kUnknown);
  EXPECT_EQ(Dataset::sample_from_datasets({hundreds(0, 3), hundreds(1, 2)}).cardinality(), 5);
  EXPECT_EQ(Dataset::sample_from_datasets(endless).cardinality(), kInfinite);
}

TEST(Choose, AChoiceThatCannotBeIsAnErrorAtItsPlace) {
  const auto of = [](const Dataset& chosen) {
    return Dataset::choose_from_datasets({hundreds(0, 3), hundreds(1, 3)}, chosen);
  };
  EXPECT_EQ(read(of(choices({0, 2, 1, -1}))), (Lists{{0}, {-1}, {100}, {-1}}));
  const auto error = [&](const Dataset& chosen) {
    const auto iterator = of(chosen).iterator();
    return error_of([&] { iterator->next(); });
  };
  EXPECT_EQ(error(choices({2})).kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error(choices({2})).what(),
              AllOf(HasSubstr("a choice is 2, and there are 2 data sets"), HasSubstr("0 to 1")));
  EXPECT_THAT(error(Dataset::from_tensors(torch::zeros({2}))).what(),
              HasSubstr("a choice is float32[2]"));
  EXPECT_EQ(error_of([] { (void)Dataset::choose_from_datasets({}, choices({0})); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_THAT(error_of([] {
                (void)Dataset::choose_from_datasets(
                    {hundreds(0, 2), Dataset::from_tensors(torch::zeros({}))}, choices({0}));
              }).what(),
              AllOf(HasSubstr("data set 1"), HasSubstr("float32"), HasSubstr("int64")));
}

TEST(Choose, NamesTheInputOfAnElement) {
  const auto fails = [](const Element& x) {
    if (number(x) == 101) throw std::runtime_error("not this one");
    return x;
  };
  const auto iterator =
      Dataset::choose_from_datasets({hundreds(0, 3), hundreds(1, 3)}, choices({1, 1}))
          .map(fails)
          .iterator();
  ASSERT_TRUE(iterator->next());
  EXPECT_THAT(error_of([&] { iterator->next(); }).what(),
              HasSubstr("source element 1, in input 1 of choose_from_datasets (pass 0)"));
}

// How often each input is drawn, against the weights, within four standard deviations.
TEST(Sample, DrawsByWeight) {
  constexpr int64_t kDrawn = 6000;
  const std::vector<double> weights{1, 5, 2};
  const Dataset dataset = Dataset::sample_from_datasets(
      {hundreds(0, 50).repeat(), hundreds(1, 50).repeat(), hundreds(2, 50).repeat()},
      {.weights = weights});
  std::array<double, 3> seen{};
  for (const int64_t number : flat(dataset.take(kDrawn), 11)) {
    ++seen[static_cast<size_t>(number / 100)];
  }
  for (size_t i = 0; i < 3; ++i) {
    const double p = weights[i] / 8;
    EXPECT_NEAR(seen[i], p * kDrawn, 4 * std::sqrt(kDrawn * p * (1 - p))) << i;
  }
}

TEST(Sample, GivesEveryElementInItsOrderUnlessItStopsAtTheFirstEnd) {
  const std::vector<Dataset> inputs{hundreds(0, 5), hundreds(1, 9), hundreds(2, 2)};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int64_t> all = flat(Dataset::sample_from_datasets(inputs), seed);
    std::stable_sort(all.begin(), all.end(),
                     [](int64_t a, int64_t b) { return a / 100 < b / 100; });
    EXPECT_EQ(all, flat(inputs[0].concatenate(inputs[1]).concatenate(inputs[2])));
    std::vector<int64_t> some =
        flat(Dataset::sample_from_datasets(inputs, {.stop_on_empty_dataset = true}), seed);
    EXPECT_LE(some.size(), 16u);
    EXPECT_GE(some.size(), 2u);
  }
}

TEST(Sample, IsTheSameForASeedAndAnotherInEachPass) {
  const std::vector<Dataset> inputs{hundreds(0, 20), hundreds(1, 20)};
  const Dataset seeded = Dataset::sample_from_datasets(inputs, {.seed = 3});
  EXPECT_EQ(flat(seeded, 1), flat(seeded, 2));
  EXPECT_NE(flat(Dataset::sample_from_datasets(inputs), 1),
            flat(Dataset::sample_from_datasets(inputs), 2));
  const auto passes = [&](bool again) {
    const std::vector<int64_t> both = flat(
        Dataset::sample_from_datasets(inputs, {.rerandomize_each_iteration = again}).repeat(2));
    return std::pair(std::vector(both.begin(), both.begin() + 40),
                     std::vector(both.begin() + 40, both.end()));
  };
  EXPECT_NE(passes(true).first, passes(true).second);
  EXPECT_EQ(passes(false).first, passes(false).second);
}

TEST(Sample, RefusesWeightsThatCannotBe) {
  const auto of = [](std::vector<double> weights) {
    return error_of([&] {
      (void)Dataset::sample_from_datasets({hundreds(0, 2), hundreds(1, 2)},
                                          {.weights = std::move(weights)});
    });
  };
  EXPECT_THAT(of({1}).what(), HasSubstr("1 weights for 2 data sets"));
  EXPECT_THAT(of({1, -1}).what(), HasSubstr("weight 1 is -1"));
  EXPECT_THAT(of({std::nan(""), 1}).what(), HasSubstr("weight 0 is nan"));
  EXPECT_THAT(of({0, 0}).what(), HasSubstr("all weights are 0"));
  // An input that is never drawn is not read, and an input that is always drawn equals the result.
  EXPECT_EQ(
      read(Dataset::sample_from_datasets({hundreds(0, 2), hundreds(1, 2)}, {.weights = {0, 1}})),
      (Lists{{100}, {101}}));
}

}  // namespace
}  // namespace muster::inline v0_1
