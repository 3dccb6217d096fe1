// Decides whether a call of the coordinator comes from a task of the job.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "muster/cluster/job.h"
#include "muster/net/internal/stranger_log.h"

namespace muster::inline v0_1::net {

// How the two sides are sure of each other: plain TCP, or TLS with certificates on both sides.
std::shared_ptr<grpc::ChannelCredentials> client_credentials(const cluster::Job& job);
std::shared_ptr<grpc::ServerCredentials> server_credentials(const cluster::Job& job);

// What a client adds to each of its calls.
void show_job(const cluster::Job& job, grpc::ClientContext& context);

// The server's judgement. Thread-safe.
class Admission {
 public:
  // Calls `admitted` with gRPC's name of the peer for each call of a task of the job, and `refused`
  // for each other one.
  using Tell = std::function<void(const std::string& peer)>;
  Admission(cluster::Job job, StrangerLog& log, Tell admitted, Tell refused)
      : job_(std::move(job)),
        log_(log),
        admitted_(std::move(admitted)),
        refused_(std::move(refused)) {}

  // OK for a task of the job. Else the status to answer, and a log line names the stranger's host
  // and the reason, once.
  grpc::Status judge(const grpc::ServerContext& context);

 private:
  // Why the call is refused; nothing for a task of the job.
  std::string objection(const grpc::ServerContext& context) const;

  const cluster::Job job_;
  StrangerLog& log_;
  const Tell admitted_, refused_;
};

}  // namespace muster::inline v0_1::net
