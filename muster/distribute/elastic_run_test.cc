#include "muster/distribute/elastic_run.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {
namespace {

// A worker with another model, whose first group was lost before it made a step, refused each chief
// that was started again, and the run never went on.
TEST(ElasticRun, AChiefThatHasMadeNoStepIsNoNewcomer) {
  ElasticRun run(1, "chief:0");
  run.begin_group(1, {"chief:0", "worker:0"});
  run.keep_newcomers();
  run.begin_group(2, {"chief:0", "worker:0"});
  run.meet({false, true}, 1);
  EXPECT_FALSE(run.tries_newcomers());
  EXPECT_FALSE(run.may_refuse_newcomers(invalid_argument("the models differ")));
}

TEST(ElasticRun, ANewcomerIsRefusedUntilAStepIsMade) {
  ElasticRun run(1, "chief:0");
  run.begin_group(1, {"chief:0", "worker:0"});
  EXPECT_FALSE(run.has_made_steps());
  run.meet({true, false}, 0);
  EXPECT_TRUE(run.may_refuse_newcomers(invalid_argument("the models differ")));
  run.keep_newcomers();
  EXPECT_FALSE(run.may_refuse_newcomers(invalid_argument("the models differ")));
  EXPECT_TRUE(run.has_made_steps());
}

TEST(ElasticRun, SaysWhetherItWaitsAfterALoss) {
  ElasticRun run(2, "worker:0");
  run.begin_group(1, {"worker:0", "worker:1", "worker:2"});
  EXPECT_EQ(run.describe_next(), "the run continues, from the memory of its workers");
  run.begin_group(2, {"worker:0", "worker:2"});
  EXPECT_EQ(run.describe_next(),
            "the run waits until 2 workers are here, and keeps its state in memory");
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
