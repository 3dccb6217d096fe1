// What tells one job from another and keeps unauthenticated peers out of it, as the environment
// says. Thread safety: values; read_job() reads files.
#pragma once

#include <optional>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::cluster {

// Certificates with which the tasks of a job prove to each other who they are, and encrypt what
// they say to the coordinator. PEM texts.
struct TlsIdentity {
  std::string certificate{};  // of this task, with those between it and the authority
  std::string key{};          // of the certificate
  std::string authority{};    // whoever it signed is a task of the job
  std::string server_name{};  // the name in the chief's certificate; "" means its host in TF_CONFIG
  bool operator==(const TlsIdentity&) const = default;
};

// The job that a task belongs to.
struct Job {
  std::string id{};       // for messages; "" when nobody gave it a name
  std::string token{};    // which all tasks of the job know, and nobody else; "" without one
  bool insecure = false;  // whoever can connect is let in, and the user said so
  std::optional<TlsIdentity> tls{};
};

// Reads the variables
//   MUSTER_JOB_ID            the name of the job, for messages, at most 256 characters
//   MUSTER_JOB_TOKEN         the token, 16 to 1024 characters; or
//   MUSTER_JOB_TOKEN_FILE    a file that holds it, for this user alone
//   MUSTER_INSECURE          1: no token is needed, anywhere
//   MUSTER_TLS_CERT, MUSTER_TLS_KEY, MUSTER_TLS_CA, MUSTER_TLS_SERVER_NAME
//                            files of a TlsIdentity (the first three go together) and its name
// Throws InvalidArgument when one is wrong, every user can write the file of a secret, certificates
// cannot be used as they are, or both say another token; NotFound when a file is not there. Where
// others can read a secret, as where a scheduler mounts it, the log says so.
MUSTER_EXPORT Job read_job(const Environment& environment);

}  // namespace muster::inline v0_1::cluster
