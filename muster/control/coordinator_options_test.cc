#include "muster/control/coordinator_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "muster/base/error_of.h"
#include "muster/base/free_ports.h"
#include "muster/base/log.h"
#include "muster/launch/certificates.h"
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
  const auto let_in = [](cluster::ResolvedCluster cluster) {
    cluster.job.token = "a token of the test";
    return cluster;
  };
  ServerOptions server = server_options(let_in(resolve(spec, "worker", 0)));
  EXPECT_EQ(server.address, "a:1");
  ASSERT_EQ(server.group.roster.size(), 2u);
  EXPECT_EQ(server.group.roster[1].task, "worker:1");
  EXPECT_EQ(server.group.roster[1].address, "b:1");
  for (const auto& [type, index, rank] :
       {std::tuple("worker", 1, 1), std::tuple("ps", 0, -1), std::tuple("evaluator", 0, -1)}) {
    JoinOptions join = join_options(let_in(resolve(spec, type, index)));
    EXPECT_EQ(join.address, "a:1");
    EXPECT_EQ(join.rank, rank);
    EXPECT_EQ(join.world_size, 2);
    EXPECT_EQ(join.coordinator_task, "worker:0");
  }
  EXPECT_THROW(server_options({}), Error);
  EXPECT_THROW(join_options({}), Error);
}

// Beyond this machine, something must keep unauthenticated peers out, or the user says that the
// network does.
TEST(Group, ACoordinatorThatOthersCanReachNeedsAToken) {
  cluster::ResolvedCluster cluster = resolve({{"worker", {"10.0.0.1:1", "b:1"}}}, "worker", 1);
  const Error error = error_of([&] { join_options(cluster); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), ::testing::HasSubstr("10.0.0.1:1"));
  EXPECT_THAT(error.message(), ::testing::HasSubstr("worker:1, has no MUSTER_JOB_TOKEN"));
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("export MUSTER_JOB_TOKEN="));
  const cluster::ResolvedCluster first = resolve({{"worker", {"10.0.0.1:1", "b:1"}}}, "worker", 0);
  EXPECT_THAT(error_of([&] { server_options(first); }).message(),
              ::testing::HasSubstr("nothing keeps unauthenticated peers out"));
  for (const auto& let_in :
       {cluster::Job{.token = "a token of the test"}, cluster::Job{.insecure = true},
        cluster::Job{.tls = cluster::TlsIdentity()}}) {
    cluster.job = let_in;
    EXPECT_EQ(join_options(cluster).job.token, let_in.token);
    EXPECT_EQ(join_options(cluster).addresses, cluster.addresses);
    EXPECT_EQ(server_options(cluster).job.token, let_in.token);
  }
  EXPECT_NO_THROW(join_options(resolve({{"worker", {"localhost:1", "b:1"}}}, "worker", 1)));
}

// The chief says so before it joins; it still serves, so that the others see its certificate.
TEST(Group, ACertificateForAnotherHostIsRefusedAtTheStart) {
  const auto serving = [](const std::vector<std::string>& hosts, const std::string& address,
                          const std::string& server_name = "") {
    const launch::Certificates made = launch::make_certificates(hosts, 1);
    cluster::ResolvedCluster cluster = resolve({{"worker", {address, "b:1"}}}, "worker", 0);
    cluster.job.tls = cluster::TlsIdentity{.certificate = made.certificate,
                                           .key = made.key,
                                           .authority = made.authority,
                                           .server_name = server_name};
    return cluster;
  };
  const Error error = error_of([&] {
    join_options(serving({"other.example", "10.0.0.9"}, "10.0.0.1:1"));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              ::testing::HasSubstr("is for 'other.example', '10.0.0.9', and not for '10.0.0.1'"));
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("muster certificates --out=DIR 10.0.0.1"));
  EXPECT_NO_THROW(join_options(serving({"10.0.0.1"}, "10.0.0.1:1")));
  EXPECT_NO_THROW(join_options(serving({"chief.example"}, "chief.example:1")));
  EXPECT_NO_THROW(join_options(serving({"::1"}, "[::1]:1")));
  EXPECT_NO_THROW(join_options(serving({"chief"}, "10.0.0.1:1", "chief")));
  EXPECT_THAT(error_of([&] { join_options(serving({"chief"}, "10.0.0.1:1", "boss")); }).message(),
              ::testing::HasSubstr("not for 'boss', the name in MUSTER_TLS_SERVER_NAME"));
  EXPECT_NO_THROW(server_options(serving({"other.example"}, "10.0.0.1:1")));
  // The certificate of a task that only dials is not compared with its host.
  cluster::ResolvedCluster dials = serving({"other.example"}, "10.0.0.1:1");
  dials.rank = 1;
  EXPECT_NO_THROW(join_options(dials));
}

// An open coordinator warns of it if nothing else keeps unauthenticated peers out.
TEST(Group, AnOpenCoordinatorSaysSo) {
  cluster::ResolvedCluster cluster = resolve({{"worker", {"10.0.0.1:1", "b:1"}}}, "worker", 0);
  const auto log_of = [&](const cluster::Job& job) {
    cluster.job = job;
    ::testing::internal::CaptureStderr();
    server_options(cluster);
    log::flush();
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(log_of({.insecure = true}),
              ::testing::HasSubstr("MUSTER_INSECURE=1: whoever reaches 10.0.0.1:1 can join"));
  EXPECT_EQ(log_of({.token = "a token of the test", .insecure = true}), "");
  EXPECT_EQ(log_of({.insecure = true, .tls = cluster::TlsIdentity()}), "");
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
