#include "muster/cluster/job_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr const char* kToken = "0123456789abcdef0123";

class JobTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text,
                    fs::perms permissions = fs::perms::owner_read) {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path) << text;
    fs::permissions(path, permissions);
    return path;
  }
  TempDirectory directory_;
};

TEST_F(JobTest, IsReadFromTheEnvironment) {
  EXPECT_EQ(read_job({}).token, "");
  EXPECT_FALSE(read_job({}).insecure);
  const Job job = read_job(Environment{
      {"MUSTER_JOB_ID", "digits-7"}, {"MUSTER_JOB_TOKEN", kToken}, {"MUSTER_INSECURE", "1"}});
  EXPECT_EQ(job.id, "digits-7");
  EXPECT_EQ(job.token, kToken);
  EXPECT_TRUE(job.insecure);
  EXPECT_FALSE(job.tls);
}

TEST_F(JobTest, ATokenMayBeInAFile) {
  const std::string path = write("token", std::string(kToken) + "\n");
  EXPECT_EQ(read_job(Environment{{"MUSTER_JOB_TOKEN_FILE", path}}).token, kToken);
  // Both may be set where they agree.
  EXPECT_EQ(
      read_job(Environment{{"MUSTER_JOB_TOKEN_FILE", path}, {"MUSTER_JOB_TOKEN", kToken}}).token,
      kToken);
  EXPECT_THAT(error_of([&] {
                read_job(Environment{{"MUSTER_JOB_TOKEN_FILE", path},
                                     {"MUSTER_JOB_TOKEN", "another one, of some length"}});
              }).message(),
              HasSubstr("different tokens"));
}

TEST_F(JobTest, AFileThatEverybodyCanWriteIsRefused) {
  const std::string path = write("token", kToken, fs::perms::owner_all | fs::perms::others_write);
  const Error error = error_of([&] { read_job(Environment{{"MUSTER_JOB_TOKEN_FILE", path}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("every user can write"));
  EXPECT_THAT(error.hint(), HasSubstr("chmod 600 " + path));
  EXPECT_THAT(std::string(error.what()), Not(HasSubstr(kToken)));
}

// Kubernetes' fsGroup makes files 0440, docker's secrets are 0444, and both are mounted read-only.
TEST_F(JobTest, AFileThatOthersCanReadIsWarnedOf) {
  const auto log_of = [&](const std::string& name, fs::perms permissions) {
    const std::string path = write(name, kToken, permissions);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(read_job(Environment{{"MUSTER_JOB_TOKEN_FILE", path}}).token, kToken);
    log::flush();
    return ::testing::internal::GetCapturedStderr();
  };
  const fs::perms group = fs::perms::owner_read | fs::perms::group_read;
  EXPECT_THAT(log_of("group", group), HasSubstr("which other users can read"));
  const std::string all = log_of("all", group | fs::perms::others_read);
  EXPECT_THAT(all, HasSubstr("which other users can read"));
  EXPECT_THAT(all, Not(HasSubstr(kToken)));
  EXPECT_EQ(log_of("own", fs::perms::owner_read), "");
}

TEST_F(JobTest, ATokenThatIsTooLongForAHeaderIsRefused) {
  EXPECT_THAT(error_of([] {
                read_job(Environment{{"MUSTER_JOB_TOKEN", std::string(1025, 'x')}});
              }).message(),
              HasSubstr("1025 characters"));
  EXPECT_THAT(error_of([] {
                read_job(Environment{{"MUSTER_JOB_ID", std::string(257, 'x')}});
              }).message(),
              HasSubstr("257 characters"));
}

TEST_F(JobTest, ATokenThatCanBeGuessedOrIsMissingIsRefused) {
  const auto message = [](const Environment& environment) {
    return error_of([&] { read_job(environment); }).message();
  };
  EXPECT_THAT(message(Environment{{"MUSTER_JOB_TOKEN", "short"}}), HasSubstr("5 characters"));
  EXPECT_THAT(message(Environment{{"MUSTER_JOB_TOKEN", "short"}}), Not(HasSubstr("short")));
  EXPECT_THAT(message(Environment{{"MUSTER_INSECURE", "yes"}}), HasSubstr("'yes'"));
  EXPECT_THAT(message(Environment{{"MUSTER_JOB_TOKEN_FILE", "/no/such/file"}}),
              HasSubstr("/no/such/file"));
  EXPECT_THAT(error_of([] {
                read_job(Environment{{"MUSTER_JOB_TOKEN_FILE", "/no/such/file"}});
              }).hint(),
              HasSubstr("unset MUSTER_JOB_TOKEN_FILE"));
  EXPECT_THAT(message(Environment{{"MUSTER_JOB_TOKEN_FILE", write("empty", "\n")}}),
              HasSubstr("holds no token"));
  EXPECT_THAT(message(Environment{{"MUSTER_TLS_CERT", "/a"}}), HasSubstr("MUSTER_TLS_CA is not"));
}

TEST_F(JobTest, FilesThatHoldNoCertificateAreRefused) {
  for (const char* text : {"", "garbage", "-----BEGIN CERTIFICATE-----\nQUJD\n"}) {
    const std::string path = write("cert", text, fs::perms::owner_all);
    const Error error = error_of([&] {
      read_job(Environment{
          {"MUSTER_TLS_CERT", path}, {"MUSTER_TLS_KEY", path}, {"MUSTER_TLS_CA", path}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("MUSTER_TLS_CERT names " + path),
                                       HasSubstr("holds no certificate")));
    EXPECT_THAT(error.hint(), HasSubstr("muster certificates"));
  }
}

TEST_F(JobTest, BelongsToTheResolvedCluster) {
  const std::string config =
      R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}})";
  const ResolvedCluster resolved =
      resolve_cluster(Environment{{"TF_CONFIG", config}, {"MUSTER_JOB_TOKEN", kToken}},
                      {.worker_zero_may_be_chief = true});
  EXPECT_EQ(resolved.job.token, kToken);
  EXPECT_THAT(resolved.describe(), Not(HasSubstr(kToken)));
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
