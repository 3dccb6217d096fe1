#include "tests/fuzz/mutate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace muster::fuzz {
namespace {

TEST(Mutate, InputsAreManyAndTheSameEveryTime) {
  const std::vector<std::string> seeds{std::string(100, 'a'), "bc", ""};
  std::set<std::string> inputs;
  size_t longest = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    const std::string input = make_input(seeds, "x", i);
    EXPECT_EQ(input, make_input(seeds, "x", i));
    if (i < seeds.size()) {
      EXPECT_EQ(input, seeds[i]);
    }
    inputs.insert(input);
    longest = std::max(longest, input.size());
  }
  EXPECT_GT(inputs.size(), 300u);
  EXPECT_GT(longest, 100u);
  EXPECT_NE(make_input(seeds, "x", 10), make_input(seeds, "y", 10));
}

// Every mutation finds the bytes it needs, whatever the seeds are.
TEST(Mutate, SmallSeedsAreEnough) {
  for (const std::vector<std::string>& seeds : {std::vector<std::string>{""}, {"a"}, {"", "ab"}}) {
    for (uint64_t i = 0; i < 3000; ++i) EXPECT_LT(make_input(seeds, "x", i).size(), 5000u);
  }
}

}  // namespace
}  // namespace muster::fuzz
