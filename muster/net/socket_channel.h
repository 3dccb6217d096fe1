// The coordinator's protocol over message sockets, at the client's end. Thread-safe, as
// CoordinatorChannel is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/cluster/job_credentials.h"
#include "muster/net/coordinator_channel.h"

namespace muster::inline v0_1::net {

class SocketChannel : public CoordinatorChannel {
 public:
  // Connects when first used, and again when a connection is lost; calls that overlap have a
  // connection each. Proves that it belongs to `job`, as the task `task` ("worker:1"), and is
  // encrypted if the job has certificates. A coordinator of another job, or one whose certificate
  // is not accepted: InvalidArgument.
  explicit SocketChannel(std::string address, cluster::Job job = {}, std::string task = {});
  ~SocketChannel() override;
  SocketChannel(const SocketChannel&) = delete;
  SocketChannel& operator=(const SocketChannel&) = delete;

  Result<Reply> join(const JoinRequest& request, double timeout_seconds) override;
  Result<Reply> beat(const BeatRequest& request, double timeout_seconds) override;
  Result<Reply> declare_model(const ModelRequest& request, double timeout_seconds) override;
  Result<Reply> barrier(const BarrierRequest& request, double timeout_seconds) override;
  Result<Reply> store(const StoreRequest& request, double timeout_seconds) override;
  Result<Reply> fail(const FailRequest& request, double timeout_seconds) override;
  Result<Reply> goodbye(const GoodbyeRequest& request, double timeout_seconds) override;
  Status watch(const plan::Caller& who, const std::function<void(const Reply&)>& receive) override;
  void close() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::net
