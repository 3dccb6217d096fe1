// `muster run --preemption-notice`: a metadata server announces that the machine will be taken, and
// the run saves and ends as after SIGTERM.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/end_to_end/program.h"
#include "tests/support/web_server.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

Words endless(const TempDirectory& directory, const std::string& cloud) {
  return muster_run({"--workers=2", "--restart=3", "--preemption-notice=" + cloud},
                    mnist(directory / "model", {"--max_steps=1000000"}));
}

TEST(PreemptionRun, ANoticeStopsTheRunAsSigtermDoes) {
  std::atomic<bool> taken = false;
  WebServer server([&](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.get_header_value("Metadata-Flavor"), "Google");
    response.body = request.path.ends_with("/preempted") ? (taken ? "TRUE" : "FALSE") : "NONE";
  });
  const TempDirectory directory;
  Program program(endless(directory, "gce"), {{"GCE_METADATA_HOST", server.host()}});
  program.wait_for("step 1/");
  EXPECT_FALSE(server.requests("instance/preempted").empty());
  taken = true;
  EXPECT_EQ(program.wait(), 143) << program.output();
  EXPECT_THAT(program.output(),
              AllOf(HasSubstr("preemption notice: instance/preempted is TRUE; the run stops"),
                    HasSubstr("SIGTERM: stopping worker 0, worker 1"),
                    // While it evaluates it has just saved.
                    AnyOf(HasSubstr("stopped by SIGTERM after saving step"),
                          HasSubstr("stopped by SIGTERM: evaluation was stopped")),
                    Not(HasSubstr("] E "))));
}

TEST(PreemptionRun, AMachineOfAnotherCloudTrainsAllTheSame) {
  WebServer server(
      [](const httplib::Request&, httplib::Response& response) { response.status = 400; });
  const TempDirectory directory;
  const Ran ran = run(muster_run({"--workers=1", "--preemption-notice=aws"},
                                 mnist(directory / "model", {"--max_steps=20"})),
                      {{"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()}});
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("no preemption notice of aws can be read now"));
}

}  // namespace
}  // namespace muster::testing
