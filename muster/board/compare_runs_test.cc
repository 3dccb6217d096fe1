#include "muster/board/compare_runs.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;

TEST(CompareRuns, FindsTheFirstStepAtWhichBitsDiffer) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const ScalarPoints a = {{"loss", {{1, 0, 2}, {2, 0, 1}, {3, 0, 0.5F}, {4, 0, kNan}}},
                          {"same", {{1, 0, 1}, {2, 0, kNan}}},
                          {"alone", {{1, 0, 1}}}};
  const ScalarPoints b = {{"loss", {{1, 0, 2}, {3, 0, 0.25F}, {3, 0, 0.75F}}},
                          {"same", {{1, 0, 1}, {2, 0, kNan}}}};
  EXPECT_EQ(compare_json(a, b), json::parse(R"([
    {"tag": "loss", "steps": 2, "parts_at": 3, "a": 0.5, "b": 0.75, "last_a": "NaN",
     "last_b": 0.75, "last_step_a": 4, "last_step_b": 3},
    {"tag": "same", "steps": 2, "parts_at": null, "a": "NaN", "b": "NaN", "last_a": "NaN",
     "last_b": "NaN", "last_step_a": 2, "last_step_b": 2}])"));
}

}  // namespace
}  // namespace muster::inline v0_1::board
