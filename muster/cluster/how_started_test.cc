#include "muster/cluster/how_started.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/cluster/internal/launcher_environments.h"

namespace muster::inline v0_1::cluster {
namespace {

using ::testing::HasSubstr;
using testing::kSlurm;
using testing::resolve_in;

TEST(HowStarted, SpeaksAsTheLauncherThatStartedThisTask) {
  const ResolvedCluster ranks =
      resolve_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}});
  EXPECT_EQ(how_started(ranks, ranks.workers[1].name()),
            "with RANK=1, WORLD_SIZE=2 and MASTER_ADDR=node1");
  const ResolvedCluster config =
      resolve_in({{"TF_CONFIG",
                   R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}})"}});
  EXPECT_EQ(how_started(config, "worker:1"),
            R"(with the same cluster and "task":{"type":"worker","index":1} in TF_CONFIG)");
  const ResolvedCluster steps = resolve_in(kSlurm);
  EXPECT_THAT(how_started(steps, steps.workers[0].name()), HasSubstr("by Slurm, as rank 0 of "));
  EXPECT_EQ(how_started(steps, "ps:0"), "");
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
