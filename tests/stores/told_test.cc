// The messages of the command for a wrong name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "tests/stores/muster_command.h"
#include "tests/support/s3_stand_in.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ToldTest : public ::testing::Test {
 protected:
  std::string told(std::vector<std::string> arguments,
                   const std::map<std::string, std::string>& instead = {}) {
    std::map<std::string, std::string> environment = instead;
    environment.insert({{"AWS_ENDPOINT_URL", bucket_.server().url()},
                        {"AWS_ACCESS_KEY_ID", S3StandIn::kKey},
                        {"AWS_SECRET_ACCESS_KEY", S3StandIn::kSecret}});
    return output_of_muster(std::move(arguments), {environment.begin(), environment.end()});
  }

  S3StandIn bucket_;
};

TEST_F(ToldTest, ABucketThatIsNotThereIsNamedWithItsService) {
  EXPECT_THAT(told({"ls", "s3://none"}),
              AllOf(HasSubstr("there is no bucket 'none'"), HasSubstr(bucket_.server().url())));
  EXPECT_THAT(told({"ls", "s3://none/*.csv"}), HasSubstr("there is no bucket 'none'"));
}

TEST_F(ToldTest, ARefusalNamesTheCredentialsThatWereUsed) {
  EXPECT_THAT(told({"ls", "s3://bucket"}, {{"AWS_SECRET_ACCESS_KEY", "wrong"}}),
              AllOf(HasSubstr("403"), HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr(S3StandIn::kKey)));
}

// Only a flag says who pays: without the flag the command names the variable.
TEST_F(ToldTest, WhoPaysIsSaidByAFlag) {
  bucket_.fill({{"data/a", "text"}});
  bucket_.set_requester_pays(true);
  const TempDirectory folder;
  const std::vector<std::vector<std::string>> commands = {
      {"ls", "s3://bucket/data"},
      {"cat", "s3://bucket/data/a"},
      {"cp", "s3://bucket/data/a", folder / "a"}};
  for (std::vector<std::string> command : commands) {
    EXPECT_THAT(told(command), AllOf(HasSubstr("403"), HasSubstr("AWS_REQUEST_PAYER=requester")));
    command.push_back("--request-payer=requester");
    EXPECT_THAT(told(command), Not(HasSubstr("403")));
  }
  EXPECT_EQ(local_file_system().read_file(folder / "a").value(), "text");
  EXPECT_THAT(told({"ls", "s3://bucket", "--request-payer=me"}), HasSubstr("requester"));
}

TEST_F(ToldTest, SimilarNamesAreProposed) {
  bucket_.fill({{"data/train.csv", "x"}, {"data/test.csv", "x"}});
  EXPECT_THAT(
      told({"ls", "s3://bucket/data/trian.csv"}),
      AllOf(HasSubstr("holds 'test.csv', 'train.csv'"), HasSubstr("did you mean 'train.csv'?")));
  EXPECT_THAT(told({"ls", "s3://bucket/data/*.rec"}), HasSubstr("holds 'test.csv', 'train.csv'"));
  EXPECT_THAT(
      told({"cat", "s3://bucket/dta/train.csv"}),
      AllOf(HasSubstr("there is no folder 's3://bucket/dta'"), HasSubstr("did you mean 'data'?")));
  EXPECT_THAT(told({"ls", "s3:/bucket/data"}), HasSubstr("write s3://bucket/data"));
  EXPECT_THAT(told({"ls", "s4://bucket/data"}), HasSubstr("did you mean s3://?"));
  const std::string said = told({"ls", "s3://bucket"}, {{"AWS_ENDPOINT_URL", "localhost:9000"}});
  EXPECT_THAT(said, HasSubstr("write http://localhost:9000"));
  const std::string wrong = "does not begin with http://";
  EXPECT_EQ(said.find(wrong), said.rfind(wrong)) << "it is said once: " << said;
}

// Whatever a server says lies in a folder: nothing is written outside of the target, and nothing
// read but the bucket.
TEST_F(ToldTest, AServerThatLiesWritesNothingOutsideOfTheTarget) {
  const TempDirectory folder;
  FileSystem& disk = local_file_system();
  disk.write_atomically(folder / "secret", "mine").value();
  const std::string target = folder / "deep/down/out";
  for (const std::string& key :
       {std::string("data/../../x"), "data/" + (folder / "secret"), "data//" + (folder / "x"),
        "data/" + bucket_.server().url() + "/x", std::string("../../x"), folder / "secret",
        std::string("data/a/b/../../../../x")}) {
    bucket_.lie_in_lists([&](const httplib::Request&) {
      return "<ListBucketResult><Contents><Key>data/good</Key><Size>1</Size></Contents>"
             "<Contents><Key>" +
             key + "</Key><Size>4</Size></Contents></ListBucketResult>";
    });
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"cp", "-r", "s3://bucket/data", target}, {"cp", "s3://bucket/data/*", target}}) {
      EXPECT_THAT(told(command), AllOf(HasSubstr("the list of 's3://bucket/data' names '"),
                                       Not(HasSubstr("copied 1"))))
          << key;
    }
    EXPECT_FALSE(disk.exists(folder / "deep").value()) << key;
    EXPECT_THAT(disk.list_directory(folder.path()).value(), ::testing::ElementsAre("secret"));
  }
}

// A bucket that cannot be listed is not an empty one.
TEST_F(ToldTest, AListingThatFailsIsNotTakenForNothing) {
  bucket_.fill({{"run/model.ckpt-1.safetensors", "x"}});
  bucket_.server().fail(
      {.only = "list-type", .status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"},
      1000);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"ls", "s3://bucket/run"},
                                             {"ls", "s3://bucket/run/*"},
                                             {"cat", "s3://bucket/run/*"},
                                             {"cp", "-r", "s3://bucket/run", "copy"},
                                             {"inspect", "checkpoint", "s3://bucket/run"},
                                             {"inspect", "checkpoint", "s3://bucket/run/model"},
                                             {"inspect", "events", "s3://bucket/run"}}) {
    EXPECT_THAT(told(command),
                AllOf(HasSubstr("cannot list 's3://bucket/run/"), HasSubstr("403 AccessDenied"),
                      Not(HasSubstr("there is no")), Not(HasSubstr("holds no"))))
        << command[0] << " " << command[1];
  }
}

// A user waits at the terminal: an outage that a training run would wait for is an error.
TEST_F(ToldTest, CommandsGiveUpSoonerThanARun) {
  bucket_.server().fail({.status = 503,
                         .body = "<Error><Code>SlowDown</Code></Error>",
                         .headers = {{"Retry-After", "60"}}},
                        1000);
  EXPECT_THAT(told({"ls", "s3://bucket"}), HasSubstr("503 SlowDown"));
  EXPECT_THAT(told({"ls", "s3://bucket"}, {{"MUSTER_STORE_RETRY_SECONDS", "long"}}),
              HasSubstr("MUSTER_STORE_RETRY_SECONDS is 'long'"));
}

TEST_F(ToldTest, AWaitSaysItsReason) {
  bucket_.server().fail(
      {.status = 500,
       .body = "<Error><Code>InternalError</Code><Message>It is tired</Message></Error>",
       .headers = {{"Retry-After", "1.5"}}},
      1000);
  EXPECT_THAT(told({"ls", "s3://bucket"}, {{"MUSTER_STORE_RETRY_SECONDS", "2"}}),
              AllOf(HasSubstr("500 InternalError (It is tired)"), HasSubstr("it is tried again"),
                    HasSubstr("error: cannot list")));
}

// The progress of a copy is shown on a terminal, or if a program asks for it, and nowhere else;
// none of it is left before an error.
TEST_F(ToldTest, HowFarACopyIsStaysOutOfFiles) {
  const TempDirectory folder;
  const std::string large = folder / "large";
  local_file_system().write_atomically(large, std::string(size_t{20} << 20, 'x')).value();
  EXPECT_EQ(told({"cp", large, folder / "copy"}), "copied 1 file, 20.0 MiB\n");
  bucket_.server().fail(
      {.only = "PUT", .status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"}, 1000);
  EXPECT_THAT(told({"cp", large, "s3://bucket/copy"}),
              AllOf(HasSubstr("403 AccessDenied"), Not(HasSubstr("copying"))));
  EXPECT_THAT(told({"cp", large, "s3://bucket/copy"}, {{"MUSTER_PROGRESS", "bar"}}),
              AllOf(HasSubstr("copying: 0 of 1 files"), HasSubstr("\rerror: ")));
}

}  // namespace
}  // namespace muster::stores
