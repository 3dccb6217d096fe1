// What the command tells whoever names something wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/stores/muster_command.h"
#include "tests/support/s3_stand_in.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST_F(ToldTest, WhoIsForbiddenHearsWhoseCredentialsWereUsed) {
  EXPECT_THAT(told({"ls", "s3://bucket"}, {{"AWS_SECRET_ACCESS_KEY", "wrong"}}),
              AllOf(HasSubstr("403"), HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr(S3StandIn::kKey)));
}

TEST_F(ToldTest, WhatWasMeantIsNamed) {
  bucket_.objects() = {{"data/train.csv", "x"}, {"data/test.csv", "x"}};
  EXPECT_THAT(
      told({"ls", "s3://bucket/data/trian.csv"}),
      AllOf(HasSubstr("holds 'test.csv', 'train.csv'"), HasSubstr("did you mean 'train.csv'?")));
  EXPECT_THAT(told({"ls", "s3://bucket/data/*.rec"}), HasSubstr("holds 'test.csv', 'train.csv'"));
  EXPECT_THAT(
      told({"cat", "s3://bucket/dta/train.csv"}),
      AllOf(HasSubstr("there is no folder 's3://bucket/dta'"), HasSubstr("did you mean 'data'?")));
  EXPECT_THAT(told({"ls", "s3:/bucket/data"}), HasSubstr("write s3://bucket/data"));
  EXPECT_THAT(told({"ls", "s4://bucket/data"}), HasSubstr("did you mean s3://?"));
  EXPECT_THAT(told({"ls", "s3://bucket"}, {{"AWS_ENDPOINT_URL", "localhost:9000"}}),
              HasSubstr("write http://localhost:9000"));
}

}  // namespace
}  // namespace muster::stores
