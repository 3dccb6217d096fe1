// Bytes over a plain bidirectional stream of gRPC on loopback, to compare with.
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace muster::bench {

class GrpcCopy {
 public:
  // Starts a server that has `bytes` to give, and connects to it. Throws Unavailable.
  explicit GrpcCopy(size_t bytes);
  ~GrpcCopy();
  GrpcCopy(const GrpcCopy&) = delete;
  GrpcCopy& operator=(const GrpcCopy&) = delete;

  // Brings the server's bytes into `to`, and then those of `from` to the server, in messages of a
  // megabyte; returns when the server has all of them.
  void there_and_back(std::span<const std::byte> from, std::span<std::byte> to);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::bench
