#include "muster/cluster/internal/tls_check.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "muster/base/error.h"

namespace muster::inline v0_1::cluster {
namespace {

using Certificate = std::shared_ptr<X509>;
using Key = std::shared_ptr<EVP_PKEY>;
using Memory = std::shared_ptr<BIO>;

Memory memory_of(const std::string& text) {
  Memory memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all);
  if (!memory) throw internal_error("OpenSSL has no memory for a certificate");
  return memory;
}

// No password is asked for.
int no_password(char*, int, int, void*) { return -1; }

std::vector<Certificate> read_certificates(const std::string& text, const std::string& named) {
  const Memory memory = memory_of(text);
  std::vector<Certificate> found;
  while (X509* next = PEM_read_bio_X509(memory.get(), nullptr, no_password, nullptr))
    found.emplace_back(next, X509_free);
  ERR_clear_error();  // the end of the text is one
  if (!found.empty()) return found;
  throw invalid_argument(fmt::format("{}, which holds no certificate", named),
                         "give a file in PEM form, with a line -----BEGIN CERTIFICATE-----; muster "
                         "certificates makes such files");
}

Key read_key(const std::string& text, const std::string& named) {
  const Memory memory = memory_of(text);
  Key key(PEM_read_bio_PrivateKey(memory.get(), nullptr, no_password, nullptr), EVP_PKEY_free);
  ERR_clear_error();
  if (key) return key;
  throw invalid_argument(fmt::format("{}, which holds no private key that can be read", named),
                         "give a file in PEM form, without a password");
}

std::string text_of(const ASN1_TIME* time) {
  const Memory memory(BIO_new(BIO_s_mem()), BIO_free_all);
  ASN1_TIME_print(memory.get(), time);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<size_t>(bytes)};
}

bool is_current(const Certificate& certificate) {
  return X509_cmp_current_time(X509_get0_notBefore(certificate.get())) < 0 &&
         X509_cmp_current_time(X509_get0_notAfter(certificate.get())) > 0;
}

Error out_of_date(const Certificate& certificate, const std::string& named) {
  return invalid_argument(
      fmt::format("{}, whose certificate is valid from {} to {}, and not now", named,
                  text_of(X509_get0_notBefore(certificate.get())),
                  text_of(X509_get0_notAfter(certificate.get()))),
      "check this machine's clock, or make new certificates for all tasks: muster certificates");
}

Certificate first_certificate(const std::string& text) {
  const Memory memory = memory_of(text);
  Certificate found(PEM_read_bio_X509(memory.get(), nullptr, no_password, nullptr), X509_free);
  ERR_clear_error();
  return found;
}

// "10.0.0.1" of the four bytes, or IPv6 of sixteen.
std::string address_text(const ASN1_OCTET_STRING* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  const int family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(bytes) != 16) return "";
  inet_ntop(family, ASN1_STRING_get0_data(bytes), text, sizeof text);
  return text;
}

}  // namespace

bool is_for_host(const std::string& text, const std::string& host) {
  const Certificate certificate = first_certificate(text);
  if (!certificate) return false;
  const bool is_for = X509_check_ip_asc(certificate.get(), host.c_str(), 0) == 1 ||
                      X509_check_host(certificate.get(), host.data(), host.size(), 0, nullptr) == 1;
  ERR_clear_error();  // a name is not a number
  return is_for;
}

std::vector<std::string> hosts_of(const std::string& text) {
  std::vector<std::string> hosts;
  const Certificate certificate = first_certificate(text);
  if (!certificate) return hosts;
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_IPADD) {
      hosts.push_back(address_text(name->d.iPAddress));
    } else if (name->type == GEN_DNS) {
      hosts.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    }
  }
  ERR_clear_error();
  return hosts;
}

void check_identity(const TlsIdentity& identity, const TlsFiles& files) {
  const std::string certificate = fmt::format("MUSTER_TLS_CERT names {}", files.certificate);
  const std::string key = fmt::format("MUSTER_TLS_KEY names {}", files.key);
  const std::string authority = fmt::format("MUSTER_TLS_CA names {}", files.authority);
  const Certificate own = read_certificates(identity.certificate, certificate).front();
  if (!is_current(own)) throw out_of_date(own, certificate);
  if (X509_check_private_key(own.get(), read_key(identity.key, key).get()) != 1) {
    ERR_clear_error();
    throw invalid_argument(
        fmt::format("{}, which is not the key of the certificate in {}", key, files.certificate),
        "give a certificate and its own key");
  }
  // An empty list would mean whomever the system trusts.
  const std::vector<Certificate> trusted = read_certificates(identity.authority, authority);
  if (std::ranges::none_of(trusted, is_current)) throw out_of_date(trusted.front(), authority);
}

}  // namespace muster::inline v0_1::cluster
