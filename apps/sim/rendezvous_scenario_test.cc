#include "apps/sim/rendezvous_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sim/found_seeds.h"

namespace muster::sim {
namespace {

using testing::HasSubstr;

TEST(RendezvousScenario, NoSeedBreaksALaw) { expect_no_failure(RendezvousScenario(), 100); }

TEST(RendezvousScenario, FindsALauncherThatIsReadyWhileItsTasksRun) {
  expect_failure(RendezvousScenario({.starts_while_others_run = true}), 500, HasSubstr(""));
}

TEST(RendezvousScenario, FindsALauncherThatIgnoresSilence) {
  expect_failure(RendezvousScenario({.ignores_silence = true}), 500,
                 HasSubstr("a launcher that hears nothing ends its tasks in time"));
}

// As the launcher did before the simulator found it.
TEST(RendezvousScenario, FindsALauncherThatReadsOldNews) {
  expect_failure(RendezvousScenario({.claims_to_have_heard = true}), 10'000,
                 HasSubstr("tasks of two starts of the run never run at the same time"));
}

TEST(RendezvousScenario, FindsALauncherThatEndsAnElasticRunForALostTask) {
  expect_failure(RendezvousScenario({.losses_are_failures = true}), 500,
                 HasSubstr("an elastic run continues while enough tasks are left"));
}

TEST(RendezvousScenario, FindsALauncherThatStartsALostTaskWithoutAsking) {
  expect_failure(RendezvousScenario({.restarts_unasked = true}), 1000,
                 HasSubstr("no more starts than the budget allows"));
}

// Those tasks hang, which ends the start.
TEST(RendezvousScenario, FindsALauncherThatDoesNotSayThatItWasCutOff) {
  expect_failure(RendezvousScenario({.never_cut_off = true}), 2000,
                 HasSubstr("an elastic run continues while enough tasks are left"));
}

TEST(RendezvousScenario, FindsALauncherThatIsNotTakenInAgain) {
  expect_failure(RendezvousScenario({.never_heard = true}), 500,
                 HasSubstr("a machine that comes takes part in the start that runs"));
}

}  // namespace
}  // namespace muster::sim
