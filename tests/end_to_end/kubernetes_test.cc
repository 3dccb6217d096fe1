// Jobs for Kubernetes, played: the processes of their pods, as the documents say they are started,
// find each other by name, and go on from the checkpoint after one was killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "muster/base/file_system.h"
#include "muster/jobs/kubernetes_manifests.h"
#include "tests/end_to_end/played_kubelet.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A chief and a worker of the digits program; its image is this machine.
jobs::JobSpec job(const std::string& model_dir, const Words& flags) {
  const Words words = mnist(model_dir, flags);
  jobs::JobSpec job;
  job.program = {words[0]};
  job.args.assign(words.begin() + 1, words.end());
  job.pools = {{.role = "chief", .count = 1, .image = "here"},
               {.role = "worker", .count = 1, .image = "here"}};
  return job;
}

std::vector<nlohmann::json> documents_of(const jobs::JobSpec& job) {
  const auto manifests = jobs::kubernetes_manifests(job, "digits", {});
  std::vector<nlohmann::json> documents(manifests.documents.begin(), manifests.documents.end());
  documents.push_back(jobs::kubernetes_secret(manifests, {}, {.token = std::string(64, 'a')}));
  return documents;
}

// The pods of both tests have the same names, and this process enters one network.
bool network_is_there() {
  static const bool entered = enter_network(PlayedKubelet(documents_of(job("", {}))).hosts());
  return entered;
}

TEST(PlayedKubernetes, AKilledPodComesBackAndTheJobGoesOn) {
  const TempDirectory directory;
  PlayedKubelet kubelet(
      documents_of(job(directory / "model", {"--max_steps=400", "--save_checkpoints_steps=50"})));
  if (!network_is_there()) GTEST_SKIP() << "needs the right to make a network: run it as root";
  kubelet.start();
  kubelet.running("digits-chief-0").wait_for("model.ckpt-50");
  kubelet.kill_pod("digits-worker-0");
  EXPECT_TRUE(kubelet.run()) << kubelet.output("digits-chief-0");
  EXPECT_THAT(kubelet.exit_codes("digits-worker-0"), ElementsAre(137, 0));
  EXPECT_THAT(kubelet.exit_codes("digits-chief-0"), ElementsAre(138, 0));
  EXPECT_THAT(kubelet.output("digits-chief-0", 1),
              AllOf(HasSubstr("continuing after step"), HasSubstr("result: {\"global_step\":400")));
  EXPECT_TRUE(local_file_system().exists(directory / "model/checkpoint").value());
}

// What will fail again is not tried again.
TEST(PlayedKubernetes, AMistakeEndsTheJob) {
  const TempDirectory directory;
  PlayedKubelet kubelet(documents_of(job(directory / "model", {"--no_such_flag"})));
  if (!network_is_there()) GTEST_SKIP() << "needs the right to make a network: run it as root";
  kubelet.start();
  EXPECT_FALSE(kubelet.run());
  std::vector<int> codes = kubelet.exit_codes("digits-chief-0");
  for (const int code : kubelet.exit_codes("digits-worker-0")) codes.push_back(code);
  EXPECT_THAT(codes, ElementsAre(2));  // of the one that was looked at first
}

}  // namespace
}  // namespace muster::testing
