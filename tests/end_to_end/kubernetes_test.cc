// Jobs for Kubernetes, played: the processes of their pods, started as the documents say, find each
// other by name, and continue from the checkpoint after one was killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "muster/base/file_system.h"
#include "muster/jobs/kubernetes_manifests.h"
#include "muster/launch/certificates.h"
#include "tests/end_to_end/played_kubelet.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job of the digits program; its image is this machine.
jobs::JobSpec job(const std::string& model_dir, const Words& flags,
                  const std::vector<std::string>& roles = {"chief", "worker"}) {
  const Words words = mnist(model_dir, flags);
  jobs::JobSpec job;
  job.program = {words[0]};
  job.args.assign(words.begin() + 1, words.end());
  for (const std::string& role : roles)
    job.pools.push_back({.role = role, .count = role == "ps" ? 2 : 1, .image = "here"});
  return job;
}

std::vector<nlohmann::json> documents_of(const jobs::JobSpec& job, bool tls = false) {
  const auto manifests = jobs::kubernetes_manifests(job, "digits", {}, tls);
  std::vector<nlohmann::json> documents(manifests.documents.begin(), manifests.documents.end());
  jobs::JobSecrets secrets{.token = std::string(64, 'a')};
  if (tls) secrets.certificates = launch::make_certificates({manifests.name}, 1);
  documents.push_back(jobs::kubernetes_secret(manifests, {}, secrets));
  return documents;
}

const std::vector<std::string> kAllRoles = {"chief", "worker", "ps", "evaluator"};

// The pods of all tests have the same names, and this process enters one network.
Network network() {
  static const Network entered =
      enter_network(PlayedKubelet(documents_of(job("", {}, kAllRoles))).hosts());
  return entered;
}

TEST(PlayedKubernetes, AKilledPodComesBackAndTheJobGoesOn) {
  if (network() == Network::kNone)
    GTEST_SKIP() << "needs the right to make a network: run it as root";
  until_in_time([] {
    const TempDirectory directory;
    PlayedKubelet kubelet(
        documents_of(job(directory / "model", {"--max_steps=400", "--save_checkpoints_steps=50"})));
    kubelet.start();
    kubelet.running("digits-chief-0").wait_for("model.ckpt-50");
    if (has_checkpoint(directory / "model", 400)) return false;
    kubelet.kill_pod("digits-worker-0");
    EXPECT_TRUE(kubelet.run()) << kubelet.output("digits-chief-0");
    EXPECT_THAT(kubelet.exit_codes("digits-worker-0"), ElementsAre(137, 0));
    EXPECT_THAT(kubelet.exit_codes("digits-chief-0"), ElementsAre(138, 0));
    EXPECT_THAT(
        kubelet.output("digits-chief-0", 1),
        AllOf(HasSubstr("continuing after step"), HasSubstr("result: {\"global_step\":400")));
    EXPECT_TRUE(local_file_system().exists(directory / "model/checkpoint").value());
    return true;
  });
}

// Under TLS too, with certificates from the Secret. Servers and the evaluator end by themselves.
TEST(PlayedKubernetes, AllRolesFindEachOtherAndEndWithTheRun) {
  const TempDirectory directory;
  PlayedKubelet kubelet(documents_of(
      job(directory / "model",
          {"--strategy=parameter_server", "--max_steps=40", "--save_checkpoints_steps=20"},
          kAllRoles),
      /*tls=*/true));
  if (network() != Network::kHosts) GTEST_SKIP() << "needs hosts with networks: iproute2, as root";
  kubelet.start();
  EXPECT_TRUE(kubelet.run()) << kubelet.output("digits-chief-0");
  for (const char* pod :
       {"digits-chief-0", "digits-worker-0", "digits-ps-0", "digits-ps-1", "digits-evaluator-0"}) {
    EXPECT_THAT(kubelet.exit_codes(pod), ElementsAre(0)) << pod << kubelet.output(pod);
  }
  EXPECT_TRUE(local_file_system().exists(directory / "model/checkpoint").value());
}

// The Secret keeps unauthenticated peers out: a pod with certificates of another authority does not
// belong to the job.
TEST(PlayedKubernetes, APodWithForeignCertificatesIsNotLetIn) {
  const TempDirectory directory;
  const jobs::JobSpec both = job(directory / "model", {"--max_steps=20"});
  std::vector<nlohmann::json> documents = documents_of(both, /*tls=*/true);
  nlohmann::json foreign = documents_of(both, /*tls=*/true).back();
  foreign["metadata"]["name"] = "foreign";
  documents.push_back(foreign);
  for (nlohmann::json& document : documents) {
    if (document["metadata"]["name"] != "digits-worker") continue;
    document["spec"]["template"]["spec"]["volumes"][0]["secret"]["secretName"] = "foreign";
  }
  PlayedKubelet kubelet(std::move(documents));
  if (network() == Network::kNone)
    GTEST_SKIP() << "needs the right to make a network: run it as root";
  kubelet.start();
  kubelet.running("digits-worker-0").wait_for("its certificate was not accepted");
}

// An error that will occur again is not retried.
TEST(PlayedKubernetes, AMistakeEndsTheJob) {
  const TempDirectory directory;
  PlayedKubelet kubelet(documents_of(job(directory / "model", {"--no_such_flag"})));
  if (network() == Network::kNone)
    GTEST_SKIP() << "needs the right to make a network: run it as root";
  kubelet.start();
  EXPECT_FALSE(kubelet.run());
  std::vector<int> codes = kubelet.exit_codes("digits-chief-0");
  for (const int code : kubelet.exit_codes("digits-worker-0")) codes.push_back(code);
  EXPECT_THAT(codes, ElementsAre(2));  // of the one that was looked at first
}

}  // namespace
}  // namespace muster::testing
