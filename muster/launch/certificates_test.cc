#include "muster/launch/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/cluster/job_credentials.h"

namespace muster::inline v0_1::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<X509> parse(const std::string& pem) {
  const std::shared_ptr<BIO> memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                    BIO_free_all);
  return {PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr), X509_free};
}

// Whether a client that trusts `authority` accepts `certificate` for `host`.
bool trusted(const std::string& authority, const std::string& certificate,
             const std::string& host) {
  const auto root = parse(authority), leaf = parse(certificate);
  const std::shared_ptr<X509_STORE> store(X509_STORE_new(), X509_STORE_free);
  X509_STORE_add_cert(store.get(), root.get());
  const std::shared_ptr<X509_STORE_CTX> context(X509_STORE_CTX_new(), X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr);
  X509_VERIFY_PARAM* wanted = X509_STORE_CTX_get0_param(context.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) != 1)
    X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
  return X509_verify_cert(context.get()) == 1;
}

TEST(Certificates, AreTakenForTheirHostsAndTheirAuthorityAlone) {
  const Certificates made = make_certificates({"host0.example.com", "10.0.0.2", "::1"}, 2);
  for (const char* host : {"host0.example.com", "10.0.0.2", "::1"})
    EXPECT_TRUE(trusted(made.authority, made.certificate, host)) << host;
  for (const char* host : {"host1.example.com", "10.0.0.3"})
    EXPECT_FALSE(trusted(made.authority, made.certificate, host)) << host;
  const Certificates others = make_certificates({"host0.example.com"}, 2);
  EXPECT_FALSE(trusted(others.authority, made.certificate, "host0.example.com"));
  EXPECT_NE(made.key, others.key);
}

TEST(Certificates, NobodyElseCanReadTheKey) {
  TempDirectory directory;
  const Certificates made = make_certificates({"localhost"}, 1);
  const auto variables = write_certificates(made, directory / "tls");
  for (const auto& [name, path] : variables) {
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    if (name == "MUSTER_TLS_KEY") {
      EXPECT_EQ(info.st_mode & 0777, 0600u);
      EXPECT_EQ(text, made.key);
    }
  }
  // Existing files are not overwritten.
  EXPECT_THAT(error_of([&] { write_certificates(made, directory / "tls"); }).message(),
              HasSubstr("exists already"));
}

TEST(Certificates, AHostIsANameOrANumber) {
  EXPECT_THROW(make_certificates({}, 1), Error);
  EXPECT_THROW(make_certificates({"host:2222"}, 1), Error);
  EXPECT_THROW(make_certificates({"a,DNS:b"}, 1), Error);
}

// The environment of a task, as the task reads it.
class ReadByATask : public ::testing::Test {
 protected:
  // The variables of certificates that are valid for `days` days.
  Environment identity(const std::string& name, int days = 1) {
    Environment environment;
    for (const auto& [variable, path] :
         write_certificates(make_certificates({"localhost"}, days), directory_ / name))
      environment = environment.with(variable, path);
    return environment;
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
    return directory_ / name;
  }
  static Error refused(const Environment& environment) {
    const Error error = error_of([&] { cluster::read_job(environment); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_NE(error.hint(), "");
    return error;
  }
  TempDirectory directory_;
};

TEST_F(ReadByATask, CertificatesOfARunAreTaken) {
  const auto tls = cluster::read_job(identity("ours").with("MUSTER_TLS_SERVER_NAME", "chief")).tls;
  ASSERT_TRUE(tls);
  EXPECT_THAT(tls->certificate, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(tls->key, HasSubstr("PRIVATE KEY"));
  EXPECT_NE(tls->authority, tls->certificate);
  EXPECT_EQ(tls->server_name, "chief");
}

TEST_F(ReadByATask, MistakesAreFoundBeforeAnythingStarts) {
  const Environment ours = identity("ours"), theirs = identity("theirs");
  const std::string empty = write("empty", ""), garbage = write("garbage", "no certificate");
  for (const std::string& path : {empty, garbage}) {
    EXPECT_THAT(refused(ours.with("MUSTER_TLS_CA", path)).message(),
                HasSubstr("MUSTER_TLS_CA names " + path + ", which holds no certificate"));
    EXPECT_THAT(refused(ours.with("MUSTER_TLS_CERT", path)).message(),
                HasSubstr("MUSTER_TLS_CERT names " + path + ", which holds no certificate"));
  }
  const std::string key = write("key", "no key");
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  EXPECT_THAT(refused(ours.with("MUSTER_TLS_KEY", key)).message(),
              HasSubstr("MUSTER_TLS_KEY names " + key + ", which holds no private key"));
  EXPECT_THAT(refused(ours.with("MUSTER_TLS_KEY", theirs.get_or("MUSTER_TLS_KEY", ""))).message(),
              HasSubstr("not the key of the certificate"));
  EXPECT_THAT(refused(identity("old", -1)).message(),
              AllOf(HasSubstr("MUSTER_TLS_CERT"), HasSubstr("and not now")));
  EXPECT_THAT(refused(ours.with("MUSTER_TLS_CA", directory_ / "old/ca.pem")).message(),
              AllOf(HasSubstr("MUSTER_TLS_CA"), HasSubstr("and not now")));
}

}  // namespace
}  // namespace muster::inline v0_1::launch
