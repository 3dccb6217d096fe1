// The wording of messages about peers that do not belong to a job. Pure functions.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "muster/base/printable.h"

namespace muster::inline v0_1::net {

inline constexpr const char* kShowsNoToken = "it shows no job token";
inline constexpr const char* kShowsAnotherToken = "it shows the token of another job";
inline constexpr const char* kAnotherJob = "it belongs to another job";

// "the job 'resnet'", of an unauthenticated peer's too.
inline std::string named_job(std::string_view id) {
  return id.empty() ? "a job without a name" : fmt::format("the job '{}'", printable_beginning(id));
}

// The message of `server`, of the job `its`, about a task of the job `own`.
inline std::string is_refused(std::string_view server, std::string_view its, std::string_view own,
                              std::string_view why) {
  if (its.empty() && own.empty()) return fmt::format("{} refused this task: {}", server, why);
  return fmt::format("{} belongs to {} and refused this task, which belongs to {}: {}", server,
                     named_job(its), named_job(own), why);
}

// The log line for a connection whose other side left while it was made.
inline std::string ended_over_tls(std::string_view host) {
  return fmt::format(
      "a TLS connection from {} ended before it showed that it belongs to the job: the certificate "
      "or the authority there may be another one (MUSTER_TLS_CERT, MUSTER_TLS_CA)",
      host);
}

// What to do about it.
inline std::string hint_of_refusal(std::string_view why) {
  return fmt::format(
      "give all tasks of one job the same {}. If they are two jobs, another job has this address: "
      "compare the addresses in TF_CONFIG, or --rendezvous",
      why == kAnotherJob ? "MUSTER_JOB_ID" : "MUSTER_JOB_TOKEN (or MUSTER_JOB_TOKEN_FILE)");
}

}  // namespace muster::inline v0_1::net
