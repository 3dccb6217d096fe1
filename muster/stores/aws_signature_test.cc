// Signatures against the examples of Amazon's documentation ("Signature Calculations for the
// Authorization Header"), and digests against the examples of their standards.
#include "muster/stores/internal/aws_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/base64.h"
#include "muster/base/crc32c.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/object_name.h"

namespace muster::inline v0_1::stores::internal {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;

constexpr double kTime = 1369353600;  // 24 May 2013, 00:00 UTC
const SigningKey kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

std::vector<std::string> sign_example(SignedRequest request, std::string_view body = "") {
  request.host = "examplebucket.s3.amazonaws.com";
  request.payload_hash = hex(sha256(bytes_of(body)));
  return sign(request, kExample, "us-east-1", "s3", kTime);
}

TEST(SignatureTest, IsThatOfTheDocumentation) {
  EXPECT_THAT(
      sign_example({.method = "GET", .path = "/test.txt", .headers = {{"range", "bytes=0-9"}}}),
      Contains(EndsWith("Signature="
                        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")));
  EXPECT_THAT(
      sign_example({.method = "PUT",
                    .path = "/test%24file.text",
                    .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}},
                   "Welcome to Amazon S3."),
      Contains(EndsWith("Signature="
                        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")));
  EXPECT_THAT(
      sign_example({.method = "GET", .path = "/", .query = Query{{"lifecycle", ""}}.text()}),
      Contains(EndsWith("Signature="
                        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")));
  EXPECT_THAT(
      sign_example({.method = "GET",
                    .path = "/",
                    .query = Query{{"prefix", "J"}, {"max-keys", "2"}}.text()}),
      Contains(EndsWith("Signature="
                        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")));
}

TEST(SignatureTest, ASessionTokenIsSentAndSigned) {
  SigningKey key = kExample;
  key.session_token = "the token";
  const auto headers = sign({.method = "GET", .host = "h", .path = "/", .payload_hash = "x"}, key,
                            "eu-west-1", "s3", kTime);
  EXPECT_THAT(headers, Contains("x-amz-security-token: the token"));
  EXPECT_THAT(headers,
              Contains(::testing::HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
                                            "x-amz-security-token,")));
}

TEST(QueryTest, IsSortedAndEncoded) {
  EXPECT_EQ((Query{{"b", "x y/z"}, {"a", "ü"}, {"a-b", ""}, {"A", "+"}}.text()),
            "A=%2B&a=%C3%BC&a-b=&b=x%20y%2Fz");
}

TEST(DigestTest, AreThoseOfTheirStandards) {
  EXPECT_EQ(hex(md5(bytes_of("abc"))), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(hex(sha256(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(base64url("\xfb\xff\xfe"), "-__-");
  EXPECT_EQ(base64url("f"), "Zg");
  // As Google's documentation of Cloud Storage gives it.
  EXPECT_EQ(crc32c_text(crc32c(bytes_of("123456789"))), to_base64("\xe3\x06\x92\x83"));
}

TEST(ObjectNameTest, ReadsBucketAndKey) {
  const auto name = parse_object_name("s3", "s3://bucket/a//b/");  // letter by letter
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name.value().bucket, "bucket");
  EXPECT_EQ(name.value().key, "a//b");
  EXPECT_EQ(name.value().uri(), "s3://bucket/a//b");
  EXPECT_EQ(parse_object_name("s3", "s3://bucket").value().key, "");
  EXPECT_EQ(parse_object_name("s3", "s3://bucket//").value().key, "");
  EXPECT_EQ(parse_object_name("s3", "s3://bucket//a").value().key, "/a");
  for (const char* wrong :
       {"s3://", "s3:///a", "s3:/a", "gs://a/b", "s3://bu cket/a", "s3://a:9/b"})
    EXPECT_FALSE(parse_object_name("s3", wrong).ok()) << wrong;
}

}  // namespace
}  // namespace muster::inline v0_1::stores::internal
