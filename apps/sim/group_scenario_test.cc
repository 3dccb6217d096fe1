#include "apps/sim/group_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sim/found_seeds.h"

namespace muster::sim {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(GroupScenario, NoSeedBreaksALaw) { expect_no_failure(GroupScenario(), 100); }

TEST(GroupScenario, FindsABarrierThatOpensEarly) {
  expect_failure(GroupScenario({.barriers_open_early = true}), 50,
                 AnyOf(HasSubstr("a barrier lets no member through before all have come"),
                       HasSubstr("all members of a group make the same step")));
}

TEST(GroupScenario, FindsACoordinatorThatHidesFailures) {
  expect_failure(GroupScenario({.hides_failures = true}), 100,
                 AnyOf(HasSubstr("no wait is longer than its bound"), HasSubstr("the run ends")));
}

}  // namespace
}  // namespace muster::sim
