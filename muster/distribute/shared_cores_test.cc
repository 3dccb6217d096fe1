#include "muster/distribute/internal/shared_cores.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/log.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string host(const std::string& name, int threads, const std::vector<int>& cores) {
  return nlohmann::json{{"host", name}, {"threads", threads}, {"cores", cores}}.dump();
}

// The warning of the task of `rank` when the tasks describe their hosts so.
std::string said(const std::vector<std::string>& hosts, int rank) {
  cluster::ResolvedCluster cluster;
  cluster.rank = rank;
  cluster.workers.clear();
  for (size_t i = 0; i < hosts.size(); ++i)
    cluster.workers.push_back({"worker", static_cast<int>(i)});
  ::testing::internal::CaptureStderr();
  warn_of_shared_cores(hosts, cluster);
  log::flush();
  return ::testing::internal::GetCapturedStderr();
}

TEST(SharedCores, TheFirstTaskOfAMachineWarnsWhenItsCoresAreTakenTwice) {
  const std::vector<std::string> hosts = {host("a", 2, {0, 1}), host("b", 4, {0, 1, 2, 3}),
                                          host("b", 4, {0, 1, 2, 3}), host("b", 4, {0, 1, 2, 3})};
  EXPECT_THAT(said(hosts, 0), IsEmpty()) << "it is alone";
  EXPECT_THAT(said(hosts, 1),
              HasSubstr("worker 1, worker 2, worker 3 share this machine and compute with 12 "
                        "threads on 4 cores, which slows them all down; set MUSTER_THREADS=1 for "
                        "each, or start them with muster run"));
  EXPECT_THAT(said(hosts, 2), IsEmpty()) << "another one speaks";
  EXPECT_THAT(said({host("a", 4, {0, 1, 2, 3}), host("a", 3, {0, 1, 2, 3})}, 0),
              HasSubstr("7 threads on 4 cores, which slows them all down; set MUSTER_THREADS=2 "));
}

TEST(SharedCores, NoWarningForTasksWithCoresOfTheirOwn) {
  // Pinned to their halves, as muster run does it.
  EXPECT_THAT(said({host("a", 2, {0, 1}), host("a", 2, {2, 3})}, 0), IsEmpty());
  EXPECT_THAT(said({host("a", 2, {0, 1, 2, 3}), host("a", 2, {0, 1, 2, 3})}, 0), IsEmpty());
  // More tasks than cores: no number of threads is small enough.
  EXPECT_THAT(said({host("a", 1, {0, 1}), host("a", 1, {0, 1}), host("a", 1, {0, 1})}, 0),
              IsEmpty());
  // Machines that could not be distinguished.
  EXPECT_THAT(said({host("", 4, {0, 1}), host("", 4, {0, 1})}, 0), IsEmpty());
}

TEST(SharedCores, ATaskDescribesItsOwnMachine) {
  const auto own = nlohmann::json::parse(describe_host());
  EXPECT_TRUE(own.at("host").is_string());
  EXPECT_GE(own.at("threads").get<int>(), 1);
  EXPECT_GE(own.at("cores").size(), 1u);
  // Two of them on this machine take its cores twice.
  nlohmann::json twice = own;
  twice["threads"] = own.at("cores").size();
  const std::string text = said({twice.dump(), twice.dump()}, 0);
  if (own.at("host") != "" && own.at("cores").size() > 1) {
    EXPECT_THAT(text, HasSubstr(fmt::format("{} threads on {} cores", 2 * own.at("cores").size(),
                                            own.at("cores").size())));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
