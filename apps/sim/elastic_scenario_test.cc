#include "apps/sim/elastic_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sim/found_seeds.h"

namespace muster::sim {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(ElasticScenario, NoSeedBreaksALaw) { expect_no_failure(ElasticScenario(), 100); }

TEST(ElasticScenario, FindsABarrierThatOpensEarly) {
  expect_failure(ElasticScenario({.coordinator = {.barriers_open_early = true}}), 50,
                 AnyOf(HasSubstr("a barrier lets no member through before all have come"),
                       HasSubstr("all members of a group make the same step")));
}

TEST(ElasticScenario, FindsAGroupThatDropsTheStepsOfASurvivor) {
  expect_failure(ElasticScenario({.least_gives = true}), 500,
                 AnyOf(HasSubstr("no step of a member of the last group is lost"),
                       HasSubstr("a group does not begin before the last checkpoint"),
                       HasSubstr("the steps that count are made once, in order")));
}

TEST(ElasticScenario, FindsAWorkerThatSkipsExamples) {
  expect_failure(ElasticScenario({.reads_on = true}), 200,
                 HasSubstr("each example is in the weights once"));
}

TEST(ElasticScenario, FindsACoordinatorThatIgnoresLostConnections) {
  expect_failure(ElasticScenario({.coordinator = {.ignores_reports = true}}), 100,
                 HasSubstr("no wait is longer than its bound"));
}

TEST(ElasticScenario, FindsAGroupThatIgnoresNewcomers) {
  expect_failure(ElasticScenario({.ignores_newcomers = true}), 200,
                 HasSubstr("a group ends after the step in which a worker has come"));
}

TEST(ElasticScenario, FindsATaskThatIsAskedToStopAndGoesOn) {
  expect_failure(ElasticScenario({.stays = true}), 200,
                 HasSubstr("a task that is asked to stop makes one step at most"));
}

TEST(ElasticScenario, FindsAWorkerWithAnotherModel) {
  expect_failure(ElasticScenario({.coordinator = {.takes_any_model = true}}), 200,
                 HasSubstr("no worker with another model makes a step"));
}

}  // namespace
}  // namespace muster::sim
