// The messages that ranks which are processes exchange around every collective: which rank is in
// which operation, which one leaves and why, which one has gone silent. The algorithms over it move
// the payload. Thread safety: run() and everything called inside of it by one thread at a time;
// interrupt() from any.
//
// Each operation begins with a header from every rank to every other one; the payload of a small
// operation travels after it.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/collectives/internal/aligned_buffer.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/point_to_point.h"

namespace muster::inline v0_1::internal {

class ControlChannel {
 public:
  // The most payload that a header can carry.
  static constexpr int64_t kMaxInlineBytes = 16 * 1024;

  struct Options {
    TcpGroupOptions link{};
    std::chrono::milliseconds timeout{};  // of an operation
    int64_t inline_bytes = 0;             // up to which an operation is one message to each peer
    int64_t segment_bytes = 0;            // sent along: all ranks must cut alike
  };
  // Connects to all peers. Throws the errors of PointToPoint.
  explicit ControlChannel(const Options& options);
  ~ControlChannel();

  // The other ranks, ascending.
  const std::vector<int>& peers() const { return peer_ranks_; }

  // Runs `algorithm` as `operation`, bounded by the timeout. When it fails, the peers receive the
  // reason. However it ends, no message touches a buffer afterwards. Throws Error.
  void run(const Operation& operation, const std::function<void()>& algorithm);

  // Replaces Options::inline_bytes for all_reduce from the next operation on; it may not be larger.
  void inline_sums_up_to(int64_t bytes) { inline_sum_bytes_ = bytes; }
  // Whether the operation is one message to each peer.
  bool is_inlined(const Operation& operation) const;

  // --- for algorithms ---
  // Sends a header to all peers. The first `payload_bytes` of the operation's data go along, when
  // it is an inlined one.
  void send_headers(const Operation& operation, int64_t payload_bytes = 0);
  // Waits for the headers of all peers. Throws InvalidArgument when a peer is in another operation,
  // PeerLost when it has left.
  void receive_headers(const Operation& operation);
  // The payload that `peer` sent with its header; valid until the next operation.
  const std::byte* payload(int peer, const Operation& operation) const;
  // A number of messages for `operation`: differs, except with a probability of 2^-28, when two
  // ranks are in different operations. So a payload never meets a buffer of another operation
  // before the headers show the difference.
  uint32_t payload_tag(const Operation& operation, int phase) const;
  // Posts a message; the transfer lives until run() returns.
  Transfer& send(int peer, const std::byte* data, int64_t bytes, uint32_t tag);
  Transfer& receive(int peer, std::byte* data, int64_t bytes, uint32_t tag);
  // Waits for a message. Throws PeerLost, Timeout, or the error of interrupt().
  void wait(const Transfer& transfer, int peer, const Operation& operation);

  // Ends the wait of the running operation and of later ones with this error.
  void interrupt(const Error& error);
  // Leaves the group: sends a goodbye, with the reason when there is one, and waits a moment for
  // the peers to read it.
  void finish(const Error* error);

 private:
  using Transfers = std::vector<std::unique_ptr<Transfer>>;
  struct Header;
  struct Peer;

  static Header& header_in(const AlignedBuffer& buffer);
  Peer& peer(int rank) const;
  void run_algorithm(const Operation& operation, const std::function<void()>& algorithm);
  void check_header(const Operation& operation, const Peer& peer) const;
  void check_interrupted(int peer, const Operation& operation);
  void wait_in(Lane lane, const Transfer& transfer, int peer, const Operation& operation);
  void send_goodbyes(const std::string& reason);
  void post_header_receives();
  std::string place(const Operation& operation) const;
  int shown(int rank) const { return options_.link.shown(rank); }
  Error left(int peer, const AlignedBuffer& inbox, const Operation& operation) const;
  std::vector<int> find_lost(const Operation& operation);
  void check_for_goodbye(const Peer& peer, const Operation& operation) const;
  [[noreturn]] void diagnose(int peer, const Operation& operation);

  const Options options_;
  int64_t inline_sum_bytes_ = options_.inline_bytes;
  std::unique_ptr<PointToPoint> link_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<int> peer_ranks_;
  std::array<AlignedBuffer, 2> outbox_;
  AlignedBuffer goodbye_;
  Transfers goodbye_sends_;
  bool sent_goodbyes_ = false;
  Transfers header_sends_, payloads_;  // of the running operation
  std::chrono::steady_clock::time_point deadline_;
  uint64_t sequence_ = 0;  // of the running operation, or the last one

  std::mutex mutex_;  // of the state that interrupt() uses: link_ while it exists
  std::optional<Error> interrupted_;
};

}  // namespace muster::inline v0_1::internal
