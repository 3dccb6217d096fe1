#include "muster/stores/preemption_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>

#include "muster/base/error_of.h"
#include "muster/stores/internal/for_tests.h"
#include "tests/support/web_server.h"

namespace muster::inline v0_1::stores {
namespace {

using ::testing::HasSubstr;

// A metadata server of any cloud that answers by path; 404 without an answer. It refuses requests
// without the header that each cloud demands.
class PreemptionNoticeTest : public ::testing::Test {
 protected:
  void set(const std::string& path, const std::string& body) {
    const std::scoped_lock lock(mutex_);
    bodies_[path] = body;
  }
  Environment environment() const {
    return {{"GCE_METADATA_HOST", server_.host()},
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server_.url()},
            {"AZURE_POD_IDENTITY_AUTHORITY_HOST", server_.url()}};
  }
  std::string look(const std::string& cloud) {
    PreemptionNotice notice(cloud, environment(), internal::quick_limits());
    const Result<std::string> seen = notice.look();
    return seen.ok() ? seen.value() : "error: " + seen.error().message();
  }
  // As `muster run` starts it.
  void expect_notice(const std::string& cloud, const std::string& text) {
    std::promise<std::string> noticed;
    const PreemptionWatch watch(
        cloud, environment(), [&](const std::string& notice) { noticed.set_value(notice); },
        internal::quick_limits());
    EXPECT_THAT(noticed.get_future().get(), HasSubstr(text));
  }

  void answer(const httplib::Request& request, httplib::Response& response) {
    const bool known = request.get_header_value("Metadata-Flavor") == "Google" ||
                       request.get_header_value("Metadata") == "true" ||
                       request.get_header_value("X-aws-ec2-metadata-token") == token_;
    if (request.method == "PUT" && request.path == "/latest/api/token") {
      EXPECT_EQ(request.get_header_value("X-aws-ec2-metadata-token-ttl-seconds"), "21600");
      response.body = token_;
    } else if (!known) {
      response.status = 401;
    } else {
      const std::scoped_lock lock(mutex_);
      const auto body = bodies_.find(request.path);
      body == bodies_.end() ? void(response.status = 404) : void(response.body = body->second);
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::string> bodies_;
  std::string token_ = "session";
  WebServer server_{[this](const httplib::Request& request, httplib::Response& response) {
    answer(request, response);
  }};
};

constexpr const char* kPreempted = "/computeMetadata/v1/instance/preempted";
constexpr const char* kMaintenance = "/computeMetadata/v1/instance/maintenance-event";
constexpr const char* kAction = "/latest/meta-data/spot/instance-action";
constexpr const char* kName = "/metadata/instance/compute/name";
constexpr const char* kEvents = "/metadata/scheduledevents";

TEST_F(PreemptionNoticeTest, GceAnnouncesPreemptionAndTermination) {
  set(kPreempted, "FALSE");
  set(kMaintenance, "NONE");
  EXPECT_EQ(look("gce"), "");
  // The machine goes on elsewhere.
  set(kMaintenance, "MIGRATE_ON_HOST_MAINTENANCE");
  EXPECT_EQ(look("gce"), "");
  set(kMaintenance, "TERMINATE_ON_HOST_MAINTENANCE");
  EXPECT_EQ(look("gce"), "instance/maintenance-event is TERMINATE_ON_HOST_MAINTENANCE");
  set(kPreempted, "TRUE");
  EXPECT_EQ(look("gce"), "instance/preempted is TRUE");
  expect_notice("gce", "instance/preempted is TRUE");
}

TEST_F(PreemptionNoticeTest, AwsAnnouncesAnActionToThoseWithAToken) {
  EXPECT_EQ(look("aws"), "") << "404 says that nothing is planned";
  PreemptionNotice notice("aws", environment(), internal::quick_limits());
  EXPECT_EQ(notice.look().value(), "");
  // The server has forgotten the token.
  token_ = "another";
  set(kAction, R"({"action": "terminate", "time": "2026-11-29T14:02:00Z"})");
  EXPECT_EQ(notice.look().value(), "spot/instance-action is 'terminate' at 2026-11-29T14:02:00Z");
  expect_notice("aws", "'terminate'");
  set(kAction, "soon");
  EXPECT_THAT(look("aws"), HasSubstr("spot/instance-action"));
}

TEST_F(PreemptionNoticeTest, AzureAnnouncesEventsOfAllMachinesOfAGroup) {
  set(kName, "worker-2");
  set(kEvents, R"({"DocumentIncarnation": 1, "Events": []})");
  EXPECT_EQ(look("azure"), "");
  const auto event = [&](const std::string& type, const std::string& machine) {
    set(kEvents, R"({"DocumentIncarnation": 2, "Events": [{"EventId": "a", "EventType": ")" + type +
                     R"(", "ResourceType": "VirtualMachine", "Resources": [")" + machine +
                     R"("], "EventStatus": "Scheduled", "NotBefore": ""}]})");
  };
  event("Preempt", "worker-1");
  EXPECT_EQ(look("azure"), "") << "another machine";
  event("Freeze", "worker-2");
  EXPECT_EQ(look("azure"), "") << "a pause of seconds";
  for (const std::string type : {"Preempt", "Terminate", "Reboot", "Redeploy"}) {
    event(type, "worker-2");
    EXPECT_EQ(look("azure"), "event '" + type + "' of worker-2 is scheduled");
  }
  expect_notice("azure", "event 'Redeploy'");
}

TEST_F(PreemptionNoticeTest, ErrorsEndNothingAndAreWarnedOfOnce) {
  std::promise<std::string> noticed;
  set(kMaintenance, "NONE");
  ::testing::internal::CaptureStderr();
  std::string said;
  {
    const PreemptionWatch watch(
        "gce", environment(), [&](const std::string& notice) { noticed.set_value(notice); },
        internal::quick_limits());
    // Two looks meet 404, as on a machine that is not of this cloud; then there is a notice.
    while (server_.requests(kPreempted).size() < 2)
      std::this_thread::sleep_for(
          std::chrono::milliseconds(5));  // the server has no event to wait for
    set(kPreempted, "TRUE");
    EXPECT_EQ(noticed.get_future().get(), "instance/preempted is TRUE");
  }
  said = ::testing::internal::GetCapturedStderr();
  const size_t first = said.find("no preemption notice of gce can be read now");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("no preemption notice", first + 1), std::string::npos) << said;
  EXPECT_THAT(said, HasSubstr("the run continues"));
}

TEST_F(PreemptionNoticeTest, AWatchEndsWhileItsServerIsSilent) {
  constexpr auto kSilence = std::chrono::seconds(4);
  server_.fail({.only = kPreempted, .delay = kSilence});
  auto begin = std::chrono::steady_clock::now();
  {
    const PreemptionWatch watch(
        "gce", environment(), [](const std::string&) { ADD_FAILURE(); }, internal::quick_limits());
    while (server_.requests(kPreempted).empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // until it is under way
    begin = std::chrono::steady_clock::now();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSilence / 2);
}

TEST_F(PreemptionNoticeTest, RefusesACloudItDoesNotKnow) {
  const Error error = error_of([&] { PreemptionNotice("gcp", environment()); });
  EXPECT_THAT(error.what(), HasSubstr("'gcp'"));
  EXPECT_THAT(error.what(), HasSubstr("gce, aws or azure"));
}

}  // namespace
}  // namespace muster::inline v0_1::stores
