// Certificates for the tasks of one job, made on the spot: an authority of its own that signs one
// certificate, and is forgotten. Thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace muster::inline v0_1::launch {

// PEM texts.
struct Certificates {
  std::string authority{};    // for all to trust; its key exists no more
  std::string certificate{};  // of every task of the job, as server and as client
  std::string key{};          // of the certificate: a program that has it is a task of the job
};

// Makes certificates for tasks at `hosts`, names or numeric addresses, valid from a day ago (clocks
// differ) for `days`. ECDSA over P-256. Throws InvalidArgument without a host, Internal when
// OpenSSL fails.
Certificates make_certificates(const std::vector<std::string>& hosts, int days);

// Writes ca.pem, cert.pem and key.pem into `folder`, which it makes; the key can be read by this
// user alone. Returns the variables of the environment that name them. Throws InvalidArgument if
// one of the files exists already, and the file system's errors.
std::vector<std::pair<std::string, std::string>> write_certificates(
    const Certificates& certificates, const std::string& folder);

}  // namespace muster::inline v0_1::launch
