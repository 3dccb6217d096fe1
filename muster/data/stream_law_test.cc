// Invariant of positions for pipelines without an index, on random compositions: an iterator saved
// anywhere and restored gives the same rest.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/data/internal/test_pipelines.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

class StreamLaws : public ::testing::Test {
 protected:
  void SetUp() override { set_threads(1); }
};

TEST_F(StreamLaws, AnyPositionOfAnyPipelineGivesTheSameRest) {
  int64_t checked = 0;
  for (uint64_t trial = 0; trial < 600; ++trial) {
    Pipelines pipelines(trial);
    const Dataset dataset = pipelines.pipeline();
    SCOPED_TRACE(fmt::format("trial {}: {}", trial, dataset.describe()));
    const auto whole = rest_of(*dataset.iterator({.seed = 3}));
    if (whole.size() > 150) continue;
    if (dataset.cardinality() >= 0) {
      ASSERT_EQ(dataset.cardinality(), static_cast<int64_t>(whole.size()));
    }
    const auto iterator = dataset.iterator({.seed = 3});
    const size_t stride = 1 + whole.size() / 12;
    for (size_t i = 0; i <= whole.size(); ++i) {
      if (i % stride == 0) {
        const std::string saved = iterator->save().dump();
        const auto other = dataset.iterator({.seed = 9});
        other->restore(json::parse(saved));
        ASSERT_EQ(other->position(), iterator->position()) << "element " << i << " of " << saved;
        ASSERT_EQ(rest_of(*other),
                  std::vector(whole.begin() + static_cast<int64_t>(i), whole.end()))
            << "continued at element " << i << " from " << saved;
        ++checked;
      }
      try {
        iterator->next();
      } catch (const Error&) {  // an element like others
      }
    }
  }
  EXPECT_GT(checked, 2000);
}

TEST_F(StreamLaws, APositionSavedTwiceOnTheWayIsStillExact) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    Pipelines pipelines(5000 + trial);
    const Dataset dataset = pipelines.pipeline();
    SCOPED_TRACE(fmt::format("trial {}: {}", trial, dataset.describe()));
    const auto whole = rest_of(*dataset.iterator({.seed = 3}));
    if (whole.size() > 100 || whole.size() < 3) continue;
    std::vector<std::vector<int64_t>> got;
    json saved = dataset.iterator({.seed = 3})->save();
    while (got.size() < whole.size()) {
      const auto iterator = dataset.iterator({.seed = 1});
      iterator->restore(saved);
      std::optional<Element> element;
      for (int64_t n = 1 + pipelines.below(4); n > 0; --n) {
        try {
          if (!(element = iterator->next())) break;
          got.push_back(numbers_in(*element));
        } catch (const Error&) {
          got.push_back({-1});
        }
      }
      saved = iterator->save();
    }
    ASSERT_EQ(got, whole);
  }
}

TEST_F(StreamLaws, AnUnorderedMapLosesNothingAndGivesNothingTwice) {
  for (uint64_t trial = 0; trial < 40; ++trial) {
    Pipelines pipelines(9000 + trial);
    const int64_t n = 1 + pipelines.below(40);
    const Dataset dataset = number_files({fmt::format("0-{}", n)})
                                .map([](const Element& x) { return x; },
                                     {.num_parallel_calls = 3, .deterministic = false});
    std::vector<int64_t> seen;
    json saved = dataset.iterator()->save();
    bool more = true;
    while (more) {
      const auto iterator = dataset.iterator();
      iterator->restore(saved);
      std::optional<Element> element;
      for (int64_t k = 1 + pipelines.below(7); k > 0; --k) {
        more = (element = iterator->next()).has_value();
        if (!more) break;
        seen.push_back(numbers_in(*element)[0]);
      }
      saved = iterator->save();
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(static_cast<int64_t>(seen.size()), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], i);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
