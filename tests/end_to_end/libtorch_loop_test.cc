// Loops of LibTorch through data_parallel(), as processes: they reach what they promise, and a run
// whose worker is killed goes on with the bits of one that nobody touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LibTorchLoop, ARunWhoseWorkerIsKilledGoesOnWithTheSameBits) {
  const TempDirectory directory;
  const auto loop = [&](const std::string& model, const std::string& steps) {
    return Words{binary("libtorch_loop"), digits(), directory / model, steps};
  };
  const Ran whole = run(muster_run({"--workers=2"}, loop("whole", "300")));
  EXPECT_EQ(whole.code, 0) << whole.output;
  const double loss = number_behind(whole.output, "step 300  loss ");
  EXPECT_GT(number_behind(whole.output, "accuracy "), 0.9);

  Program killed(muster_run({"--workers=2", "--restart=3"}, loop("killed", "300")));
  killed.wait_for("step 100 ");
  killed.signal_task("worker", 1, SIGKILL);
  EXPECT_EQ(killed.wait(), 0) << killed.output();
  EXPECT_THAT(killed.output(), AllOf(HasSubstr("restored "), HasSubstr("step 300  loss ")));
  EXPECT_EQ(number_behind(killed.output(), "step 300  loss "), loss) << killed.output();

  // One worker continues what two have begun.
  const Ran alone = run(loop("whole", "400"));
  EXPECT_EQ(alone.code, 0) << alone.output;
  EXPECT_THAT(alone.output, AllOf(HasSubstr("continuing after step 300"), HasSubstr("step 400 ")));
}

TEST(LibTorchLoop, AdversariesLearnTheRingOnTwoWorkers) {
  const Ran two = run(muster_run({"--workers=2"}, {binary("gan")}));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_NEAR(number_behind(two.output, "distance from the center "), 2, 0.3) << two.output;
}

TEST(LibTorchLoop, APolicyLearnsToBalanceOnTwoWorkers) {
  const Ran two = run(muster_run({"--workers=2"}, {binary("ppo")}));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_LT(number_behind(two.output, "round 1  an episode lasts "), 40) << two.output;
  EXPECT_GT(number_behind(two.output, "round 20  an episode lasts "), 150) << two.output;
  const Ran one = run({binary("ppo")});
  EXPECT_EQ(one.code, 0) << one.output;
  for (const std::string round : {"1", "5", "10"}) {
    const std::string line = "round " + round + "  an episode lasts ";
    EXPECT_EQ(number_behind(two.output, line), number_behind(one.output, line)) << round;
  }
}

}  // namespace
}  // namespace muster::testing
