#include "apps/sim/servers_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sim/found_seeds.h"

namespace muster::sim {
namespace {

using testing::HasSubstr;

TEST(ServersScenario, NoSeedBreaksALaw) { expect_no_failure(ServersScenario(), 100); }

TEST(ServersScenario, FindsAServerThatForgetsGradientsThatCount) {
  expect_failure(ServersScenario({.forgets_on_loss = true}), 1000, HasSubstr("the run ends"));
}

TEST(ServersScenario, FindsAServerThatGetsOtherGradients) {
  const ServersScenario scenario({.mixes_up = true});
  expect_failure(scenario, 200, HasSubstr("all servers of a checkpoint have the same steps"));
  expect_failure(scenario, 200, HasSubstr("a worker's weights have all steps"));
}

TEST(ServersScenario, FindsAWorkerThatDoesNotWaitForSlowOnes) {
  expect_failure(ServersScenario({.ignores_staleness = true}), 200,
                 HasSubstr("weights are as old as max_staleness allows"));
}

TEST(ServersScenario, FindsAServerThatLeavesWithoutASave) {
  expect_failure(ServersScenario({.leaves_at_once = true}), 100,
                 HasSubstr("a server that is asked to stop leaves after a save"));
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
