#include "muster/control/group.h"

#include <gtest/gtest.h>

#include <future>

#include "muster/base/error.h"
#include "muster/base/free_ports.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::control {
namespace {

cluster::ResolvedCluster resolve(const cluster::ClusterSpec& spec, const std::string& type,
                                 int index) {
  return cluster::resolve_cluster({.cluster = spec, .task_type = type, .task_index = index},
                                  {.worker_zero_may_be_chief = true});
}

TEST(Group, RostersAndRanksFollowTheCluster) {
  const cluster::ClusterSpec spec{{"worker", {"a:1", "b:1"}}, {"ps", {"p:1"}}};
  ServerOptions server = server_options(resolve(spec, "worker", 0));
  EXPECT_EQ(server.address, "a:1");
  ASSERT_EQ(server.group.roster.size(), 2u);
  EXPECT_EQ(server.group.roster[1].task, "worker:1");
  EXPECT_EQ(server.group.roster[1].address, "b:1");
  for (const auto& [type, index, rank] :
       {std::tuple("worker", 1, 1), std::tuple("ps", 0, -1), std::tuple("evaluator", 0, -1)}) {
    JoinOptions join = join_options(resolve(spec, type, index));
    EXPECT_EQ(join.address, "a:1");
    EXPECT_EQ(join.rank, rank);
    EXPECT_EQ(join.world_size, 2);
    EXPECT_EQ(join.coordinator_task, "worker:0");
  }
  EXPECT_THROW(server_options({}), Error);
  EXPECT_THROW(join_options({}), Error);
}

TEST(Group, TheTasksOfATfConfigMeet) {
  std::string chief = net::join_address("127.0.0.1", free_port());
  const cluster::ClusterSpec spec{{"chief", {chief}}, {"worker", {"127.0.0.1:1"}}};
  CoordinatorServer server(server_options(resolve(spec, "chief", 0)));
  auto join = [&](const std::string& type) {
    return std::async(std::launch::async, [&, type] {
      return CoordinatorClient::join(join_options(resolve(spec, type, 0)));
    });
  };
  auto first = join("chief"), second = join("worker"), third = join("evaluator");
  std::unique_ptr<CoordinatorClient> clients[] = {first.get(), second.get(), third.get()};
  for (auto& client : clients) client->done();
  for (auto& client : clients) client->close();
  EXPECT_TRUE(server.stop());
  EXPECT_FALSE(server.first_failure());
}

}  // namespace
}  // namespace muster::inline v0_1::control
