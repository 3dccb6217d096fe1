// The identity of a job and the secrets that keep unauthenticated peers out of it, read from the
// environment. Thread safety: values; read_job() reads files.
#pragma once

#include <optional>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::cluster {

// Certificates by which the tasks of a job authenticate each other and encrypt their messages to
// the coordinator. PEM texts.
struct TlsIdentity {
  std::string certificate{};  // of this task, with its intermediate certificates
  std::string key{};          // of the certificate
  std::string authority{};    // the CA: a peer with a certificate it signed is a task of the job
  std::string server_name{};  // the name in the chief's certificate; "" means its host in TF_CONFIG
  bool operator==(const TlsIdentity&) const = default;
};

// The job that a task belongs to.
struct Job {
  std::string id{};       // for messages; "" when the job has no name
  std::string token{};    // the secret that the tasks of the job share; "" without one
  bool insecure = false;  // the user allows every peer that can connect
  std::optional<TlsIdentity> tls{};
};

// Reads the variables
//   MUSTER_JOB_ID            the name of the job, for messages, at most 256 characters
//   MUSTER_JOB_TOKEN         the token, 16 to 1024 characters; or
//   MUSTER_JOB_TOKEN_FILE    a file that holds it, for this user alone
//   MUSTER_INSECURE          1: no token is needed, anywhere
//   MUSTER_TLS_CERT, MUSTER_TLS_KEY, MUSTER_TLS_CA, MUSTER_TLS_SERVER_NAME
//                            files of a TlsIdentity (the first three go together) and its name
// Throws InvalidArgument when a variable is wrong, when every user can write the file of a secret,
// when certificates cannot be used together, or when the token and its file differ; NotFound when a
// file is missing. If other users can read a secret, as when a scheduler mounts it, logs a warning.
MUSTER_EXPORT Job read_job(const Environment& environment);

}  // namespace muster::inline v0_1::cluster
