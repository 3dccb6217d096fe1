// Limits for the data that members and observers make the coordinator keep.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/plan/coordinator_state.h"
#include "muster/plan/internal/test_groups.h"

namespace muster::inline v0_1::plan {
namespace {

using testing::HasSubstr;
using State = Verdict::State;

TEST(CoordinatorQuota, OfObservers) {
  CoordinatorState state = group_of(2);
  const auto join = [&](int number) {
    return state.join({fmt::format("ps:{}", number), 5}, -1, 2, 0);
  };
  const int most = CoordinatorState::most_observers(2);
  for (int number = 0; number < most; ++number) EXPECT_EQ(join(number).state, State::kReady);
  const Verdict verdict = join(most);
  ASSERT_EQ(verdict.state, State::kRefused);
  EXPECT_THAT(verdict.refusal->message(), HasSubstr(fmt::format("the {} that a group", most)));
  EXPECT_EQ(join(0).state, State::kReady) << "one that is there";
  state.leave({"ps:1", 5});
  EXPECT_EQ(join(most).state, State::kReady) << "in the place of one that left";
}

TEST(CoordinatorQuota, OfBarriers) {
  CoordinatorState state = group_of(2);
  for (size_t number = 0; number < CoordinatorState::kMostBarriers; ++number)
    state.barrier(caller(0), fmt::format("b{}", number), 0, 1);
  const Verdict verdict = state.barrier(caller(0), "one more", 0, 1);
  ASSERT_EQ(verdict.state, State::kRefused);
  EXPECT_THAT(verdict.refusal->message(), HasSubstr("\"one more\""));
  EXPECT_EQ(state.barrier(caller(1), "b0", 0, 1).state, State::kReady) << "one that is open";
}

}  // namespace
}  // namespace muster::inline v0_1::plan
