// Stores over TLS and through proxies, as their tools' variables say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/launch/certificates.h"
#include "muster/stores/gcs_store.h"
#include "muster/stores/http_store.h"
#include "muster/stores/s3_store.h"
#include "tests/stores/muster_command.h"
#include "tests/support/gcs_stand_in.h"
#include "tests/support/s3_stand_in.h"
#include "tests/support/tcp_front.h"

namespace muster::stores {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string content_of(size_t size) {
  Random random(derive_key(24, {size}));
  std::string content(size, '\0');
  for (char& byte : content) byte = static_cast<char>(random.next_u32());
  return content;
}

class EncryptedTest : public ::testing::Test {
 protected:
  // A front of the bucket whose certificate is for `host`, valid for `days`.
  std::unique_ptr<TcpFront> front(const std::string& server, const std::string& host = "127.0.0.1",
                                  int days = 1) {
    const launch::Certificates made = launch::make_certificates({host}, days);
    local_file_system().write_atomically(authority_, made.authority).value();
    return std::make_unique<TcpFront>(server, made.certificate, made.key);
  }
  Environment behind(const TcpFront& front) const {
    return bucket_.environment().with("AWS_ENDPOINT_URL", "https://" + front.host());
  }
  // A store whose parts are small.
  static std::unique_ptr<FileSystem> store(const Environment& environment) {
    S3Options options = S3Options::from(environment);
    options.limits.part_bytes = size_t{256} << 10;
    options.limits.first_delay = Seconds(0.001);
    return make_s3_store(options);
  }
  TempDirectory folder_;
  const std::string authority_ = folder_ / "ca.pem";
  S3StandIn bucket_;
};

// By each variable that names a file of authorities.
TEST_F(EncryptedTest, AnAuthorityOfOnesOwnIsTrusted) {
  const auto tls = front(bucket_.server().host());
  const std::string content = content_of(700'000);
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const auto files = store(behind(*tls).with(name, authority_));
    files->write_atomically("s3://bucket/small", std::string_view("x")).value();
    files->write_atomically("s3://bucket/large", content).value();
    EXPECT_TRUE(files->read_file("s3://bucket/large").value() == content) << name;
  }
  GcsStandIn google;
  const auto google_tls = front(google.server().host());
  const auto files = make_gcs_store(GcsOptions::from(
      {{"STORAGE_EMULATOR_HOST", "https://" + google_tls->host()}, {"SSL_CERT_FILE", authority_}}));
  files->write_atomically("gs://bucket/small", std::string_view("x")).value();
  EXPECT_EQ(files->read_file("gs://bucket/small").value(), "x");
  WebServer web([](const httplib::Request&, httplib::Response& response) { response.body = "w"; });
  const auto web_tls = front(web.host());
  const auto pages = make_http_store(HttpOptions::from({{"SSL_CERT_FILE", authority_}}));
  EXPECT_EQ(pages->read_file("https://" + web_tls->host() + "/page").value(), "w");
}

// The body of a write is not signed there, and its checksum is compared instead.
TEST_F(EncryptedTest, ContentsGoWithAChecksumInPlaceOfASignature) {
  const auto tls = front(bucket_.server().host());
  const auto files = store(behind(*tls).with("AWS_CA_BUNDLE", authority_));
  files->write_atomically("s3://bucket/f", content_of(700'000)).value();
  EXPECT_EQ(bucket_.server().last_header("partNumber=2", "x-amz-content-sha256"),
            "UNSIGNED-PAYLOAD");
  // Over http only the signature shows changes made on purpose.
  store(bucket_.environment())->write_atomically("s3://bucket/g", content_of(700'000)).value();
  EXPECT_EQ(bucket_.server().last_header("g?partNumber=2", "x-amz-checksum-crc32c"), "");
  store(bucket_.environment().with("MUSTER_S3_UNSIGNED_HTTP", "1"))
      ->write_atomically("s3://bucket/h", content_of(700'000))
      .value();
  EXPECT_EQ(bucket_.server().last_header("h?partNumber=2", "x-amz-content-sha256"),
            "UNSIGNED-PAYLOAD");
  EXPECT_THAT(bucket_.objects(), testing::SizeIs(3));
}

TEST_F(EncryptedTest, AServiceThatKnowsNoChecksumsIsWrittenTo) {
  const auto tls = front(bucket_.server().host());
  const Environment environment = behind(*tls).with("AWS_CA_BUNDLE", authority_);
  const std::string content = content_of(2'000'000);
  for (const char* refusal : {"NotImplemented", "InvalidArgument", "InvalidRequest"}) {
    bucket_.set_checksums(false, refusal);
    const auto files = store(environment);
    files->write_atomically("s3://bucket/f", std::string_view("x")).value();
    files->write_atomically("s3://bucket/large", content).value();
    EXPECT_TRUE(bucket_.objects().at("large") == content) << refusal;
    bucket_.server().forget_requests();
    files->write_atomically("s3://bucket/f", std::string_view("y")).value();
    EXPECT_THAT(bucket_.server().requests(), testing::SizeIs(1)) << "it is remembered";
  }
  // A service that refuses for another reason may still know them.
  bucket_.set_checksums(true);
  {
    const auto files = store(environment);
    bucket_.server().fail(
        {.only = "PUT", .status = 400, .body = "<Error><Code>InvalidRequest</Code></Error>"}, 2);
    EXPECT_FALSE(files->write_atomically("s3://bucket/f", std::string_view("z")).ok());
    files->write_atomically("s3://bucket/f", std::string_view("z")).value();
    EXPECT_EQ(bucket_.server().last_header("PUT", "x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
  }
  bucket_.set_checksums(false);
  bucket_.server().forget_requests();
  const auto files = store(environment.with("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED"));
  files->write_atomically("s3://bucket/f", std::string_view("z")).value();
  EXPECT_THAT(bucket_.server().requests(), testing::SizeIs(1)) << "it is not tried";
}

TEST_F(EncryptedTest, BytesThatChangeOnTheWayAreRefused) {
  const auto tls = front(bucket_.server().host());
  tls->change_byte_behind(50'000);
  const auto files = store(behind(*tls).with("AWS_CA_BUNDLE", authority_));
  const Status written = files->write_atomically("s3://bucket/f", content_of(100'000));
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().what(),
              AllOf(HasSubstr("BadDigest"), HasSubstr("damaged on the way")));
  EXPECT_THAT(bucket_.objects(), IsEmpty());
}

// A certificate gets no better by trying again: the error comes with the first try.
TEST_F(EncryptedTest, CertificatesThatAreWrongAreErrorsAtOnce) {
  const auto said = [&](const TcpFront& tls, const std::string& authority) {
    const int before = tls.connections();
    const auto read =
        store(behind(tls).with("AWS_CA_BUNDLE", authority))->read_file("s3://bucket/f");
    EXPECT_EQ(tls.connections(), before + 1);
    return std::string(read.ok() ? "" : read.error().what());
  };
  const auto good = front(bucket_.server().host());
  EXPECT_THAT(said(*good, ""), AllOf(HasSubstr("certificate"), HasSubstr("AWS_CA_BUNDLE")));
  const auto other = front(bucket_.server().host(), "buckets.example");
  EXPECT_THAT(said(*other, authority_),
              AllOf(HasSubstr("subject name"), HasSubstr("the server name in its certificate")));
  const auto expired = front(bucket_.server().host(), "127.0.0.1", 0);
  EXPECT_THAT(said(*expired, authority_), HasSubstr("expired"));
  // A file that is none, and a server that speaks no TLS.
  const auto no_file =
      store(behind(*good).with("AWS_CA_BUNDLE", folder_ / "gone"))->read_file("s3://bucket/f");
  EXPECT_THAT(no_file.error().what(), HasSubstr(folder_ / "gone"));
  const auto plain =
      store(bucket_.environment().with("AWS_ENDPOINT_URL", "https://" + bucket_.server().host()))
          ->read_file("s3://bucket/f");
  EXPECT_THAT(plain.error().what(), HasSubstr("http://"));
  // A server that requires a client certificate says so, and continues to do so.
  const auto strict = front(bucket_.server().host());
  strict->require_certificates();
  EXPECT_THAT(said(*strict, authority_),
              AllOf(HasSubstr("alert"), HasSubstr("require client certificates")));
}

// The variables of curl: https goes through a tunnel, http through the proxy, and hosts in no_proxy
// are reached directly.
TEST_F(EncryptedTest, ProxiesAreThoseOfTheEnvironment) {
  bucket_.fill({{"f", "through"}});
  const auto tls = front(bucket_.server().host());
  TcpFront proxy(tls->host());
  // The name is known to the proxy alone.
  std::vector<std::pair<std::string, std::string>> environment = {
      {"AWS_ENDPOINT_URL", "https://127.0.0.1:443"},
      {"AWS_CA_BUNDLE", authority_},
      {"AWS_ACCESS_KEY_ID", S3StandIn::kKey},
      {"AWS_SECRET_ACCESS_KEY", S3StandIn::kSecret},
      {"https_proxy", "http://" + proxy.host()}};
  EXPECT_EQ(output_of_muster({"cat", "s3://bucket/f"}, environment), "through");
  EXPECT_THAT(proxy.tunnels(), Contains("127.0.0.1:443"));
  environment[0].second = "https://" + tls->host();
  environment.emplace_back("no_proxy", "127.0.0.1");
  const size_t before = proxy.tunnels().size();
  EXPECT_EQ(output_of_muster({"cat", "s3://bucket/f"}, environment), "through");
  EXPECT_EQ(proxy.tunnels().size(), before);

  WebServer web([](const httplib::Request& request, httplib::Response& response) {
    response.body = request.target + "\n";
  });
  EXPECT_EQ(output_of_muster({"cat", "http://files.example/a.csv"}, {{"http_proxy", web.url()}}),
            "http://files.example/a.csv\n");
  EXPECT_EQ(output_of_muster({"cat", "http://files.example/a.csv"}, {{"all_proxy", web.url()}}),
            "http://files.example/a.csv\n");
}

// Neither error heals by trying again, and the address contains a password. These servers give
// secrets, and are near.
TEST_F(EncryptedTest, CredentialsOfThisMachinesSurroundingsComeWithoutAProxy) {
  WebServer container([](const httplib::Request&, httplib::Response& response) {
    response.body = R"({"AccessKeyId": "K", "SecretAccessKey": "S", "Token": "T",
                        "Expiration": "2099-01-01T00:00:00Z"})";
  });
  WebServer proxy([](const httplib::Request& request, httplib::Response& response) {
    response.body = request.target + "\n";
  });
  EXPECT_EQ(output_of_muster({"cat", "s3://bucket/f"},
                             {{"AWS_ENDPOINT_URL", "http://bucket.example"},
                              {"AWS_SHARED_CREDENTIALS_FILE", folder_ / "none"},
                              {"AWS_CONFIG_FILE", folder_ / "none"},
                              {"AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url() + "/creds"},
                              {"AWS_CONTAINER_AUTHORIZATION_TOKEN", "the token"},
                              {"http_proxy", proxy.url()}}),
            "http://bucket.example/bucket/f\n");
  EXPECT_THAT(container.requests(), Contains("GET /creds"));
  EXPECT_THAT(proxy.requests("creds"), IsEmpty());
}

TEST_F(EncryptedTest, ProxiesThatAreWrongAreErrorsAtOnceAndShowNoPassword) {
  for (const std::string proxy :
       {"http://me:gehe#im@127.0.0.1:1", "ftp://me:geheim@127.0.0.1:1", "http://me:geheim@h:x"}) {
    EXPECT_THAT(output_of_muster({"cat", "http://files.example/f"}, {{"http_proxy", proxy}}),
                AllOf(HasSubstr("not an address"), HasSubstr("http://USER:PASSWORD@HOST:PORT"),
                      Not(HasSubstr("gehe")), Not(HasSubstr("tried"))));
  }
  TcpFront proxy(bucket_.server().host());
  for (const int status : {407, 403}) {
    proxy.refuse_tunnels(status);
    EXPECT_THAT(output_of_muster({"cat", "https://files.example/f"},
                                 {{"https_proxy", "http://me:geheim@" + proxy.host()}}),
                AllOf(HasSubstr("response " + std::to_string(status)),
                      HasSubstr(status == 407 ? "USER:PASSWORD" : "no_proxy"),
                      Not(HasSubstr("geheim")), Not(HasSubstr("tried"))));
  }
}

}  // namespace
}  // namespace muster::stores
