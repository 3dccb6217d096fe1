// How two ranks that have a connection prove to each other that they belong to one group: each
// shows that it knows the group's secret, and neither sends it. An unauthenticated peer is rejected
// before a byte of the group's data moves. No LibTorch here. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::internal {

// The kind of messages on a connection between two ranks.
enum class Lane : int32_t { kControl, kBulk };

// One side of a handshake. It never waits: its owner polls the socket and calls advance().
class Handshake {
 public:
  enum class State { kRunning, kDone, kFailed };

  // The side that connected. `socket` may be still connecting.
  Handshake(FileDescriptor socket, std::string secret, int own_rank, int peer_rank, Lane lane);
  // The side that accepted: it learns the rank of the other one. `host` is the other side's
  // address.
  Handshake(FileDescriptor socket, std::string secret, int own_rank, std::string host);

  const FileDescriptor& socket() const { return socket_; }
  // Whether it waits for the connection to be made, rather than for bytes.
  bool connecting() const { return step_ == Step::kConnect; }
  // Whether it has answered a hello of this group's protocol, and waits for the proof.
  bool has_answered() const { return step_ == Step::kReadProof; }
  // Goes as far as it can without waiting.
  State advance();

  // --- once it is done ---
  int peer_rank() const { return peer_rank_; }
  Lane lane() const { return lane_; }
  FileDescriptor take_socket() { return std::move(socket_); }

  // --- once it has failed --- The reason: the system's error, or that the other side proved
  // nothing.
  const std::string& reason() const { return reason_; }
  // The other side answered, and not as a member of the group does.
  bool is_unauthenticated() const { return unauthenticated_; }
  // The connection stood, and the other side dropped it.
  bool was_dropped() const { return dropped_; }
  const std::string& host() const { return host_; }

 private:
  // The next step of this side.
  enum class Step {
    kConnect,
    kReadChallenge,
    kReadWelcome,
    kReadHello,
    kReadProof,
    kDone,
    kFailed
  };

  bool step();
  bool finish_connecting();
  bool answer_hello();
  bool answer_challenge();
  bool check_proof();
  bool enter();
  // Whether all `bytes` of the next message have arrived.
  bool read(size_t bytes);
  bool send(const std::string& message);
  bool fail(std::string reason);
  bool fail_unauthenticated(std::string reason);
  bool fail_as_dropped(std::string reason);
  std::string proof(const char* role) const;

  FileDescriptor socket_;
  const std::string secret_;
  const int own_rank_;
  int peer_rank_ = -1;
  Lane lane_ = Lane::kControl;
  std::string host_;
  Step step_;
  std::string inbox_;
  std::string hello_, challenge_;  // as they were sent
  std::string reason_;
  bool unauthenticated_ = false;
  bool dropped_ = false;
};

}  // namespace muster::inline v0_1::internal
