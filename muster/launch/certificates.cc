#include "muster/launch/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "muster/base/error.h"

namespace muster::inline v0_1::launch {
namespace {

template <typename T, void (*kFree)(T*)>
struct Free {
  void operator()(T* object) const { kFree(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION, X509_EXTENSION_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO, BIO_free_all>>;

constexpr long kDaySeconds = 24 * 60 * 60;

// The result of OpenSSL, or its error.
template <typename T>
T checked(T answer) {
  if (answer) return answer;
  char text[256] = {};
  ERR_error_string_n(ERR_get_error(), text, sizeof text);
  throw internal_error(fmt::format("OpenSSL could not make a certificate: {}", text));
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(checked(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str())));
  checked(X509_add_ext(certificate, extension.get(), -1));
}

// A certificate of `key` with a random number, not signed yet.
Certificate begin_certificate(EVP_PKEY* key, const std::string& name, int days) {
  Certificate made(checked(X509_new()));
  checked(X509_set_version(made.get(), X509_VERSION_3));
  std::array<unsigned char, 16> number{};
  checked(RAND_bytes(number.data(), number.size()) == 1);
  number[0] &= 0x7f;  // a positive one
  std::unique_ptr<BIGNUM, Free<BIGNUM, BN_free>> big(
      checked(BN_bin2bn(number.data(), number.size(), nullptr)));
  checked(BN_to_ASN1_INTEGER(big.get(), X509_get_serialNumber(made.get())));
  checked(X509_gmtime_adj(X509_getm_notBefore(made.get()), -kDaySeconds));
  checked(X509_gmtime_adj(X509_getm_notAfter(made.get()), days * kDaySeconds));
  checked(X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                                     reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                     0));
  checked(X509_set_pubkey(made.get(), key));
  return made;
}

void sign(X509* certificate, X509* issuer, EVP_PKEY* key) {
  checked(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)));
  checked(X509_sign(certificate, key, EVP_sha256()));
}

// "DNS:worker-0,IP:10.0.0.1"
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string names;
  for (const std::string& host : hosts) {
    in6_addr parsed{};
    const bool number = inet_pton(AF_INET, host.c_str(), &parsed) == 1 ||
                        inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
    const bool name = !host.empty() && host.find_first_of(",: \n\t") == std::string::npos;
    if (!number && !name) {
      throw invalid_argument(fmt::format("'{}' is not a host", host),
                             "give names or numeric addresses, without ports");
    }
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", number ? "IP" : "DNS", host);
  }
  return names;
}

template <typename Write>
std::string pem(Write write) {
  const Memory memory(checked(BIO_new(BIO_s_mem())));
  checked(write(memory.get()));
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<size_t>(bytes)};
}

void write_file(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) {
    if (errno == EEXIST)
      throw invalid_argument(fmt::format("{} exists already", path), "name another folder");
    throw from_errno(errno, fmt::format("cannot write {}", path));
  }
  const ssize_t written = write(fd, text.data(), text.size());
  const int number = written < 0 ? errno : ENOSPC;
  const bool closed = close(fd) == 0;
  if (written != static_cast<ssize_t>(text.size()) || !closed)
    throw from_errno(number, fmt::format("cannot write {}", path));
}

}  // namespace

Certificates make_certificates(const std::vector<std::string>& hosts, int days) {
  if (hosts.empty())
    throw invalid_argument("certificates are made for hosts, and none is named",
                           "name the hosts in TF_CONFIG");
  const Key authority_key(checked(EVP_EC_gen("P-256"))), key(checked(EVP_EC_gen("P-256")));
  const Certificate authority =
      begin_certificate(authority_key.get(), "authority of a Muster job", days);
  add_extension(authority.get(), authority.get(), NID_basic_constraints,
                "critical,CA:TRUE,pathlen:0");
  add_extension(authority.get(), authority.get(), NID_key_usage, "critical,keyCertSign");
  add_extension(authority.get(), authority.get(), NID_subject_key_identifier, "hash");
  sign(authority.get(), authority.get(), authority_key.get());
  const Certificate task = begin_certificate(key.get(), "task of a Muster job", days);
  add_extension(task.get(), authority.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(task.get(), authority.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(task.get(), authority.get(), NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(task.get(), authority.get(), NID_subject_alt_name, alternative_names(hosts));
  sign(task.get(), authority.get(), authority_key.get());
  return {.authority = pem([&](BIO* out) { return PEM_write_bio_X509(out, authority.get()); }),
          .certificate = pem([&](BIO* out) { return PEM_write_bio_X509(out, task.get()); }),
          .key = pem([&](BIO* out) {
            return PEM_write_bio_PKCS8PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr,
                                                 nullptr);
          })};
}

std::vector<std::pair<std::string, std::string>> write_certificates(
    const Certificates& certificates, const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw from_errno(errno, fmt::format("cannot make the folder {}", folder));
  const std::string authority = folder + "/ca.pem", certificate = folder + "/cert.pem",
                    key = folder + "/key.pem";
  write_file(authority, certificates.authority, 0644);
  write_file(certificate, certificates.certificate, 0644);
  write_file(key, certificates.key, 0600);
  return {{"MUSTER_TLS_CA", authority}, {"MUSTER_TLS_CERT", certificate}, {"MUSTER_TLS_KEY", key}};
}

}  // namespace muster::inline v0_1::launch
