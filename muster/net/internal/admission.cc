#include "muster/net/internal/admission.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "muster/base/secret.h"
#include "muster/net/internal/job_words.h"
#include "muster/net/internal/peer.h"

namespace muster::inline v0_1::net {
namespace {

// Names of gRPC's metadata; with "-bin", any bytes may be values.
constexpr const char* kToken = "muster-token-bin";
constexpr const char* kJob = "muster-job-bin";

std::string_view value_of(const grpc::ServerContext& context, const char* name) {
  const auto& all = context.client_metadata();
  const auto found = all.find(name);
  return found == all.end() ? std::string_view()
                            : std::string_view(found->second.data(), found->second.size());
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> client_credentials(const cluster::Job& job) {
  if (!job.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = job.tls->authority,
                               .pem_private_key = job.tls->key,
                               .pem_cert_chain = job.tls->certificate});
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const cluster::Job& job) {
  if (!job.tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = job.tls->authority;
  options.pem_key_cert_pairs.push_back({job.tls->key, job.tls->certificate});
  return grpc::SslServerCredentials(options);
}

void show_job(const cluster::Job& job, grpc::ClientContext& context) {
  if (!job.token.empty()) context.AddMetadata(kToken, job.token);
  if (!job.id.empty()) context.AddMetadata(kJob, job.id);
}

std::string Admission::objection(const grpc::ServerContext& context) const {
  if (!job_.token.empty()) {
    const std::string_view token = value_of(context, kToken);
    if (same_secret(token, job_.token)) return {};
    return token.empty() ? kShowsNoToken : kShowsAnotherToken;
  }
  // Without a token the name alone tells jobs apart; it keeps nobody out who wants in.
  const std::string_view id = value_of(context, kJob);
  return id.empty() || job_.id.empty() || id == job_.id ? "" : kAnotherJob;
}

grpc::Status Admission::judge(const grpc::ServerContext& context) {
  const std::string why = objection(context);
  if (why.empty()) {
    admitted_(context.peer());
    return grpc::Status::OK;
  }
  // Before the answer, behind which the other end goes away.
  refused_(context.peer());
  log_.tell(fmt::format("refused a call from {}: {}", peer_of(context.peer()).host, why));
  return {grpc::StatusCode::UNAUTHENTICATED,
          is_a_stranger("the coordinator", job_.id, value_of(context, kJob), why)};
}

}  // namespace muster::inline v0_1::net
