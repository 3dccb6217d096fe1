// The hosts of a large cluster: how they are looked up, and the findings about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "apps/muster/doctor.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr int kMany = 100;

std::string host(int index) { return "node" + std::to_string(index); }

std::set<std::string> many_hosts() {
  std::set<std::string> hosts;
  for (int i = 0; i < kMany; ++i) hosts.insert(host(i));
  return hosts;
}

// A name server that answers on request.
class NameServer {
 public:
  Addresses resolve() {
    std::unique_lock lock(mutex_);
    ++asked_;
    ++asking_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return answers_; });
    --asking_;
    changed_.notify_all();
    return {"10.0.0.1"};
  }
  void answer_and_wait() {
    std::unique_lock lock(mutex_);
    answers_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, 10s, [&] { return asking_ == 0; });
  }
  int asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answers_ = false;
  int asked_ = 0, asking_ = 0;
};

TEST(LookUp, AsksForAllHosts) {
  const auto found = look_up(
      many_hosts(), [](const std::string& name) { return Addresses{name}; }, 10s);
  EXPECT_EQ(found.size(), static_cast<size_t>(kMany));
  for (const auto& [name, addresses] : found) EXPECT_EQ(addresses, Addresses{name});
  EXPECT_THAT(look_up(
                  {}, [](const std::string&) { return Addresses{}; }, 10s),
              IsEmpty());
}

TEST(LookUp, HasABoundOnThreadsAndTime) {
  const auto server = std::make_shared<NameServer>();
  const auto found = look_up(
      many_hosts(), [server](const std::string&) { return server->resolve(); }, 100ms);
  EXPECT_THAT(found, IsEmpty());
  EXPECT_LE(server->asked(), 16);
  // The others are not waited for, so they are not asked any more.
  server->answer_and_wait();
  EXPECT_LE(server->asked(), 16);
}

// Stacks that no memory holds: a thread cannot be had.
TEST(LookUp, WithoutThreadsFindsNothingAndDoesNotWait) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  int asked = 0;
  const auto found = look_up(
      many_hosts(),
      [&asked](const std::string&) {
        ++asked;
        return Addresses{};
      },
      std::chrono::hours(1));
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&huge);
  EXPECT_THAT(found, IsEmpty());
  EXPECT_EQ(asked, 0);
}

// Worker 0 of many; the findings about TF_CONFIG.
std::vector<Finding> said_of(const std::map<std::string, Addresses>& hosts) {
  nlohmann::json workers = nlohmann::json::array();
  for (int i = 0; i < kMany; ++i) workers.push_back(host(i) + ":2222");
  const nlohmann::json config = {{"cluster", {{"worker", workers}}},
                                 {"task", {{"type", "worker"}, {"index", 0}}}};
  DoctorFacts facts{.environment = Environment{{"TF_CONFIG", config.dump()},
                                               {"MUSTER_JOB_TOKEN", "a token of the test"}}};
  facts.machine.interfaces = {{"eth0", {"10.0.0.5"}, false, true}};
  facts.machine.hosts = hosts;
  return judge_environment(facts);
}

TEST(DoctorHosts, EqualFindingsAreReportedOnce) {
  std::map<std::string, Addresses> hosts;
  for (int i = 1; i < kMany; ++i) hosts[host(i)] = {};
  hosts[host(0)] = {"10.0.0.5"};
  const auto unknown = said_of(hosts);
  ASSERT_EQ(unknown.size(), 2u);
  EXPECT_EQ(unknown[1].level, Level::kWarning);
  EXPECT_EQ(unknown[1].text,
            "99 hosts are not known here: 'node1', 'node10', 'node11', 'node12', 'node13' ... and "
            "94 more");

  // This task's own host is another matter, and a host that was not looked up is not unknown.
  hosts[host(0)] = {};
  for (int i = 50; i < kMany; ++i) hosts.erase(host(i));
  const auto mixed = said_of(hosts);
  ASSERT_EQ(mixed.size(), 4u);
  EXPECT_EQ(mixed[1].level, Level::kProblem);
  EXPECT_EQ(mixed[1].text, "'node0', the host of worker:0, is not known here");
  EXPECT_THAT(mixed[2].text, HasSubstr("49 hosts are not known here"));
  EXPECT_EQ(mixed[3].level, Level::kWarning);
  EXPECT_THAT(mixed[3].text, HasSubstr("50 hosts could not be looked up in time: 'node50', "));
  EXPECT_THAT(mixed[3].fix, HasSubstr("/etc/resolv.conf"));
}

}  // namespace
}  // namespace muster::app
