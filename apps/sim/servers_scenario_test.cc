#include "apps/sim/servers_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sim/found_seeds.h"

namespace muster::sim {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(ServersScenario, NoSeedBreaksALaw) { expect_no_failure(ServersScenario(), 2000); }

TEST(ServersScenario, FindsAServerThatAppliesARequestTwice) {
  expect_failure(ServersScenario({.applies_twice = true}), 500,
                 AnyOf(HasSubstr("an example is counted once"), HasSubstr("all servers")));
}

TEST(ServersScenario, FindsAServerThatForgetsGradientsThatCount) {
  expect_failure(ServersScenario({.forgets_on_loss = true}), 500, HasSubstr(""));
}

}  // namespace
}  // namespace muster::sim
