// The places of credentials, with stand-ins of the servers that give them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "muster/base/base64.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/stores/internal/aws_credentials.h"
#include "muster/stores/internal/aws_profile.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/for_tests.h"
#include "muster/stores/internal/google_credentials.h"
#include "tests/support/web_server.h"

namespace muster::inline v0_1::stores::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    limits_.clock = &clock_;
    limits_.retry_timeout = Seconds(0.05);
  }

  std::string file(const std::string& name, const std::string& text) {
    local_file_system().write_atomically(folder_ / name, text).value();
    return folder_ / name;
  }
  // No file, no server.
  Environment nowhere() const {
    return {
        {"HOME", folder_.path()}, {"AWS_EC2_METADATA_DISABLED", "true"}, {"NO_GCE_CHECK", "true"}};
  }
  Result<std::optional<AwsCredentials>> aws(const Environment& environment) {
    return AwsCredentialChain(environment, "eu-west-1", limits_).get();
  }
  // "key secret token source", or the error.
  std::string told(const Result<std::optional<AwsCredentials>>& found) {
    if (!found.ok()) return found.error().what();
    if (!found.value()) return "none";
    const AwsCredentials& it = *found.value();
    return it.key.key_id + " " + it.key.secret + " " + it.key.session_token + " " + it.source;
  }

  TempDirectory folder_;
  ManualClock clock_{{.sleep_advances = true}};
  StoreOptions limits_ = quick_limits();
};

TEST_F(CredentialsTest, TheEnvironmentCountsFirst) {
  const Environment both =
      nowhere().with("AWS_ACCESS_KEY_ID", "K").with("AWS_SECRET_ACCESS_KEY", "S");
  EXPECT_THAT(told(aws(both.with("AWS_PROFILE", "gone"))), HasSubstr("K S  the environment"));
  EXPECT_THAT(told(aws(both.with("AWS_SESSION_TOKEN", "T"))), HasSubstr("K S T"));
  EXPECT_THAT(told(aws(nowhere().with("AWS_ACCESS_KEY_ID", "K"))), HasSubstr("belong together"));
  EXPECT_EQ(told(aws(nowhere())), "none");
}

TEST_F(CredentialsTest, ProfilesAreThoseOfAmazonsTools) {
  const std::string credentials = file("credentials",
                                       "# mine\n[default]\naws_access_key_id = K\n"
                                       "aws_secret_access_key=S=\n\n[work]\naws_access_key_id=W\n"
                                       "aws_secret_access_key=X\naws_session_token = T\n");
  const std::string config =
      file("config",
           "[default]\nregion = eu-south-2\ns3 =\n  region = not-this\n[profile role]\n"
           "role_arn = arn:r\nsource_profile = default\n[profile work]\naws_access_key_id = no\n");
  const Environment environment =
      nowhere().with("AWS_SHARED_CREDENTIALS_FILE", credentials).with("AWS_CONFIG_FILE", config);
  EXPECT_THAT(told(aws(environment)), HasSubstr("K S=  profile 'default' of " + config));
  EXPECT_THAT(told(aws(environment.with("AWS_PROFILE", "work"))), HasSubstr("W X T profile"));
  EXPECT_THAT(told(aws(environment.with("AWS_PROFILE", "role"))),
              AllOf(HasSubstr("by role_arn"), HasSubstr("aws configure export-credentials")));
  EXPECT_THAT(told(aws(environment.with("AWS_PROFILE", "gone"))),
              AllOf(HasSubstr("NotFound"), HasSubstr("'gone'"), HasSubstr(credentials)));
  EXPECT_EQ(read_aws_profile(environment).value().settings.at("region"), "eu-south-2");
}

TEST_F(CredentialsTest, AWebIdentityBecomesARole) {
  std::string asked;
  WebServer sts([&](const httplib::Request& request, httplib::Response& response) {
    asked = request.body;
    response.body =
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
        "<AccessKeyId>K</AccessKeyId><SecretAccessKey>S</SecretAccessKey>"
        "<SessionToken>T</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
        "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
  });
  const Environment environment = nowhere()
                                      .with("AWS_WEB_IDENTITY_TOKEN_FILE", file("token", "ey+J\n"))
                                      .with("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
                                      .with("AWS_ENDPOINT_URL_STS", sts.url());
  EXPECT_THAT(told(aws(environment)), HasSubstr("K S T the role 'arn:aws:iam::1:role/r'"));
  EXPECT_THAT(asked, AllOf(HasSubstr("Action=AssumeRoleWithWebIdentity"),
                           HasSubstr("WebIdentityToken=ey%2BJ")));
  EXPECT_THAT(told(aws(environment.with("AWS_ENDPOINT_URL_STS", sts.url() + "/"))),
              HasSubstr("K S T"));
  EXPECT_THAT(told(aws(environment.with("AWS_ENDPOINT_URL_STS", "localhost:9000"))),
              AllOf(HasSubstr("'localhost:9000' of STS (AWS_ENDPOINT_URL_STS)"),
                    HasSubstr("write http://localhost:9000")));
}

TEST_F(CredentialsTest, AContainerIsGivenThem) {
  WebServer server([](const httplib::Request& request, httplib::Response& response) {
    response.status = request.get_header_value("Authorization") == "the token" ? 200 : 401;
    response.body = R"({"AccessKeyId": "K", "SecretAccessKey": "S", "Token": "T",
                        "Expiration": "2099-01-01T00:00:00Z"})";
  });
  const Environment environment =
      nowhere().with("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/creds");
  EXPECT_THAT(told(aws(environment.with("AWS_CONTAINER_AUTHORIZATION_TOKEN", "the token"))),
              HasSubstr("K S T the container"));
  EXPECT_THAT(told(aws(environment.with("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        file("token", "the token\n")))),
              HasSubstr("K S T the container"));
  EXPECT_THAT(told(aws(environment)),
              AllOf(HasSubstr("the server answers 401"), Not(HasSubstr("/creds"))));
}

TEST_F(CredentialsTest, AnInstanceIsAskedWithAToken) {
  const double begin = clock_.wall_seconds();
  const auto iso = [](double seconds) {
    const auto time = static_cast<time_t>(seconds);
    std::tm parts{};
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time, &parts));
    return std::string(text);
  };
  WebServer server([&](const httplib::Request& request, httplib::Response& response) {
    if (request.method == "PUT") {
      response.body = "session";
    } else if (request.get_header_value("X-aws-ec2-metadata-token") != "session") {
      response.status = 401;
    } else if (request.path.ends_with("/security-credentials/")) {
      response.body = "my-role\n";
    } else {
      response.body =
          R"({"AccessKeyId": "K", "SecretAccessKey": "S", "Token": "T", "Expiration": ")" +
          iso(begin + 3600) + "\"}";
    }
  });
  const Environment environment =
      Environment{{"HOME", folder_.path()}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()}};
  AwsCredentialChain chain(environment, "", limits_);
  EXPECT_THAT(told(chain.get()), HasSubstr("K S T this EC2 instance's role 'my-role'"));
  EXPECT_THAT(told(chain.get()), HasSubstr("K S T"));
  EXPECT_THAT(server.requests(), SizeIs(3)) << "they are kept";
  // They are renewed before they end.
  clock_.advance(from_seconds(3500));
  EXPECT_THAT(told(chain.get()), HasSubstr("K S T"));
  EXPECT_THAT(server.requests(), SizeIs(6));
  EXPECT_THAT(told(aws(environment.with("AWS_EC2_METADATA_DISABLED", "true"))), "none");
}

// A metadata service that is gone for a while must not turn a run into one without credentials.
TEST_F(CredentialsTest, CredentialsAreUsedToTheirEndAndNeverForgotten) {
  std::atomic<bool> gone{false};
  WebServer server([&](const httplib::Request& request, httplib::Response& response) {
    if (gone) {
      response.status = 404;
    } else if (request.method == "PUT") {
      response.body = "session";
    } else if (request.path.ends_with("/security-credentials/")) {
      response.body = "my-role\n";
    } else if (request.path.ends_with("/token")) {
      response.body = R"({"expires_in": 600, "access_token": "m"})";
    } else {
      const auto time = static_cast<time_t>(clock_.wall_seconds() + 600);
      char text[32];
      std::tm parts{};
      strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time, &parts));
      response.body = R"({"AccessKeyId": "K", "SecretAccessKey": "S", "Expiration": ")" +
                      std::string(text) + "\"}";
    }
  });
  const Environment environment{{"HOME", folder_.path()},
                                {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()},
                                {"GCE_METADATA_HOST", server.host()}};
  AwsCredentialChain chain(environment, "", limits_);
  GoogleCredentials google(environment, limits_);
  EXPECT_THAT(told(chain.get()), HasSubstr("K S"));
  EXPECT_EQ(google.get().value()->token, "m");
  gone = true;
  clock_.advance(from_seconds(400));
  EXPECT_THAT(told(chain.get()), HasSubstr("K S")) << "they are good for a while";
  EXPECT_EQ(google.get().value().value_or(GoogleToken()).token, "m");
  // A source that does not answer is not asked for each request.
  server.forget_requests();
  for (int second = 0; second < 60; ++second) {
    EXPECT_TRUE(chain.get().ok());
    EXPECT_TRUE(google.get().ok());
    clock_.advance(from_seconds(1));
  }
  EXPECT_THAT(server.requests("PUT"), SizeIs(::testing::Le(3u)));
  EXPECT_THAT(server.requests("computeMetadata"), SizeIs(::testing::Le(3u)));
  clock_.advance(from_seconds(400));
  EXPECT_THAT(told(chain.get()), AllOf(HasSubstr("Unavailable"), HasSubstr("my-role")));
  ASSERT_FALSE(google.get().ok()) << "a request without a token is refused in other words";
  EXPECT_EQ(google.get().error().kind(), ErrorKind::kUnavailable);
  gone = false;
  EXPECT_THAT(told(chain.get()), HasSubstr("K S"));
  EXPECT_EQ(google.get().value()->token, "m");
}

TEST_F(CredentialsTest, AServiceThatIsBusyIsNotTakenForNone) {
  WebServer server(
      [](const httplib::Request&, httplib::Response& response) { response.status = 503; });
  const Environment environment{{"HOME", folder_.path()},
                                {"AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url()},
                                {"GCE_METADATA_HOST", server.host()}};
  EXPECT_THAT(told(aws(environment)), HasSubstr("503"));
  EXPECT_FALSE(GoogleCredentials(environment, limits_).get().ok());
}

// A file that was cut off ends within the key: the error describes the mistake without quoting it.
TEST_F(CredentialsTest, ErrorsQuoteNoSecrets) {
  const std::string cut = R"({"type": "service_account", "private_key": "TOPSECRET)";
  const auto google =
      GoogleCredentials(nowhere().with("GOOGLE_APPLICATION_CREDENTIALS", file("key", cut)), limits_)
          .get();
  ASSERT_FALSE(google.ok());
  EXPECT_THAT(google.error().what(), Not(HasSubstr("TOPSECRET")));
  WebServer server([](const httplib::Request&, httplib::Response& response) {
    response.body = R"({"AccessKeyId": "K", "SecretAccessKey": "TOPSECRET)";
  });
  EXPECT_THAT(
      told(aws(nowhere().with("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/creds"))),
      AllOf(HasSubstr("is not valid JSON"), Not(HasSubstr("TOPSECRET"))));
}

// A key pair of one test run.
class KeyPair {
 public:
  KeyPair() : key_(EVP_RSA_gen(2048), EVP_PKEY_free) {}
  std::string pem() const {
    const std::unique_ptr<BIO, int (*)(BIO*)> text(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_PrivateKey(text.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    char* data = nullptr;
    const long size = BIO_get_mem_data(text.get(), &data);
    return {data, static_cast<size_t>(size)};
  }
  bool verifies(std::string_view text, std::string_view signature) const {
    const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                     EVP_MD_CTX_free);
    EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key_.get());
    return EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                            signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                            text.size()) == 1;
  }

 private:
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
};

std::string from_base64url(std::string text) {
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  while (text.size() % 4 != 0) text += '=';
  return from_base64(text).value_or("");
}

// The server checks the claims and the signature, as Google's does.
TEST_F(CredentialsTest, AServiceAccountSignsForItsTokens) {
  const KeyPair pair;
  int given = 0;
  std::string wrong;
  WebServer server([&](const httplib::Request& request, httplib::Response& response) {
    const std::string assertion = request.get_param_value("assertion");
    const size_t first = assertion.find('.');
    const size_t second = assertion.rfind('.');
    const auto claims =
        nlohmann::json::parse(from_base64url(assertion.substr(first + 1, second - first - 1)));
    if (!pair.verifies(assertion.substr(0, second), from_base64url(assertion.substr(second + 1))))
      wrong += "the signature; ";
    if (claims.at("iss") != "me@project") wrong += "iss; ";
    if (claims.at("aud") != server.url() + "/token") wrong += "aud; ";
    if (claims.at("exp") != claims.at("iat").get<int64_t>() + 3600) wrong += "exp; ";
    response.body = R"({"expires_in": 3600, "token_type": "Bearer", "access_token": "token )" +
                    std::to_string(++given) + "\"}";
  });
  const nlohmann::json key = {
      {"type", "service_account"},   {"client_email", "me@project"},
      {"private_key", pair.pem()},   {"private_key_id", "1"},
      {"quota_project_id", "payer"}, {"token_uri", server.url() + "/token"}};
  GoogleCredentials credentials(
      nowhere().with("GOOGLE_APPLICATION_CREDENTIALS", file("key.json", key.dump())), limits_);
  EXPECT_EQ(credentials.get().value()->token, "token 1");
  EXPECT_EQ(credentials.get().value()->token, "token 1");
  EXPECT_EQ(credentials.get().value()->quota_project, "payer");
  EXPECT_THAT(credentials.get().value()->source, HasSubstr("me@project"));
  clock_.advance(from_seconds(3500));
  EXPECT_EQ(credentials.get().value()->token, "token 2") << "renewed before its end";
  credentials.forget();
  EXPECT_EQ(credentials.get().value()->token, "token 3");
  EXPECT_THAT(wrong, IsEmpty());
}

TEST_F(CredentialsTest, AUserHasARefreshToken) {
  WebServer server([](const httplib::Request& request, httplib::Response& response) {
    const bool good = request.get_param_value("grant_type") == "refresh_token" &&
                      request.get_param_value("refresh_token") == "r/1" &&
                      request.get_param_value("client_secret") == "s";
    response.status = good ? 200 : 400;
    response.body =
        good ? R"({"expires_in": 60, "access_token": "t"})" : R"({"error": "invalid_grant"})";
  });
  nlohmann::json user = {{"type", "authorized_user"},
                         {"client_id", "c"},
                         {"client_secret", "s"},
                         {"refresh_token", "r/1"},
                         {"token_uri", server.url()}};
  // Where gcloud writes it.
  local_file_system().make_directories(folder_ / ".config/gcloud").value();
  file(".config/gcloud/application_default_credentials.json", user.dump());
  EXPECT_EQ(GoogleCredentials(nowhere(), limits_).get().value()->token, "t");
  user["refresh_token"] = "withdrawn";
  file(".config/gcloud/application_default_credentials.json", user.dump());
  EXPECT_THAT(GoogleCredentials(nowhere(), limits_).get().error().what(),
              AllOf(HasSubstr("invalid_grant"), HasSubstr("make new ones")));
}

TEST_F(CredentialsTest, GooglesMachinesAreAskedByTheirMetadata) {
  WebServer server([](const httplib::Request& request, httplib::Response& response) {
    response.status = request.get_header_value("Metadata-Flavor") == "Google" ? 200 : 403;
    response.body = R"({"expires_in": 3600, "access_token": "m"})";
  });
  const Environment environment{{"HOME", folder_.path()}, {"GCE_METADATA_HOST", server.host()}};
  EXPECT_EQ(GoogleCredentials(environment, limits_).get().value()->token, "m");
  EXPECT_FALSE(GoogleCredentials(nowhere(), limits_).get().value().has_value());
}

TEST_F(CredentialsTest, FilesThatAreWrongAreNamed) {
  const auto error_of = [&](const std::string& path) -> std::string {
    const auto got =
        GoogleCredentials(nowhere().with("GOOGLE_APPLICATION_CREDENTIALS", path), limits_).get();
    return got.ok() ? "" : got.error().what();
  };
  EXPECT_THAT(error_of(folder_ / "gone"),
              AllOf(HasSubstr("GOOGLE_APPLICATION_CREDENTIALS"), HasSubstr("gone")));
  EXPECT_THAT(error_of(file("a", "{")), HasSubstr("line 1"));
  EXPECT_THAT(error_of(file("b", R"({"type": "external_account"})")),
              HasSubstr("'external_account', which are not read here"));
  EXPECT_THAT(error_of(file("c", R"({"type": "service_account", "private_key": "x"})")),
              HasSubstr("is not a RSA key in PEM"));
}

}  // namespace
}  // namespace muster::inline v0_1::stores::internal
