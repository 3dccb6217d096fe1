// Messages between processes. The source of this header is the only one that names c10d and Gloo:
// they differ between versions of LibTorch. Thread safety: one thread sends, receives and waits;
// Transfer::abort() may come from any thread while the Transfer lives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "muster/collectives/rendezvous.h"

namespace muster::inline v0_1::internal {

// A message on its way. Destroying it makes sure that nothing touches its memory any more.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // True when it is complete, false when abort() ended the wait. Throws some std::exception when
  // the connection is gone or `timeout` is over; a time-out closes the connections to all peers.
  virtual bool wait(std::chrono::milliseconds timeout) = 0;
  // Ends the current or the next wait().
  virtual void abort() = 0;
};

struct PointToPointOptions {
  KeyValueStore* store = nullptr;
  int rank = 0;
  int size = 1;
  std::string address;  // numeric, owned by an interface of this machine
  std::string prefix;   // of the keys in `store`
  std::chrono::milliseconds timeout{};
};

class PointToPoint {
 public:
  // Connects to all peers. Throws Error. Call it, and everything else, with SIGPIPE blocked: Gloo
  // writes to sockets of dead peers, and its threads inherit the mask.
  explicit PointToPoint(const PointToPointOptions& options);
  ~PointToPoint();

  // Messages of one tag between two ranks arrive in the order they were sent. The receiver's size
  // must not be less than the sender's: Gloo ends the process otherwise. Throws some std::exception
  // when the connection is gone.
  std::unique_ptr<Transfer> send(int peer, const std::byte* data, int64_t bytes, uint32_t tag);
  std::unique_ptr<Transfer> receive(int peer, std::byte* data, int64_t bytes, uint32_t tag);
  // Whether both connections to `peer` still stand, as far as this side knows; `tag` is used by no
  // message. Any thread.
  bool connected(int peer, uint32_t tag);

 private:
  struct Group;
  std::unique_ptr<Group> group_;
};

}  // namespace muster::inline v0_1::internal
