#include "apps/sim/servers_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sim/found_seeds.h"

namespace muster::sim {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(ServersScenario, NoSeedBreaksALaw) { expect_no_failure(ServersScenario(), 300); }

TEST(ServersScenario, FindsAServerThatForgetsGradientsThatCount) {
  expect_failure(ServersScenario({.forgets_on_loss = true}), 1000,
                 AnyOf(HasSubstr("the same steps"), HasSubstr("ends"),
                       HasSubstr("all examples that were seen"),
                       HasSubstr("a worker's weights have all steps")));
}

TEST(ServersScenario, FindsAnExampleThatIsSkipped) {
  expect_failure(ServersScenario({.skips = 1}), 100,
                 HasSubstr("all examples that were seen count"));
}

TEST(ServersScenario, FindsAnExampleThatIsRepeated) {
  expect_failure(ServersScenario({.skips = -1}), 100, HasSubstr("an example"));
}

}  // namespace
}  // namespace muster::sim
