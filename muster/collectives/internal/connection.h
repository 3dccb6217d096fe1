// Messages over one TCP connection, each with a tag. Nothing blocks: the owner of the connection
// polls its socket and lets it read and write. No LibTorch here. Thread safety: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::internal {

class Connection;

// A message on its way. After its destruction nothing touches its memory any more; if it was sent
// in part, the connection is closed then.
class Transfer {
 public:
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // All of it has come, or is with the system.
  bool done() const { return done_; }

 private:
  friend class Connection;
  Transfer(Connection& connection, std::byte* data, int64_t bytes, uint32_t tag)
      : connection_(connection), data_(data), bytes_(bytes), tag_(tag) {}

  Connection& connection_;
  std::byte* const data_;
  const int64_t bytes_;  // at most this many, for a received message
  const uint32_t tag_;
  int64_t moved_ = 0;  // bytes of the payload; for a message being sent, of the header too
  bool done_ = false;
};

class Connection {
 public:
  // Outlives its transfers.
  explicit Connection(FileDescriptor socket);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Posts a message of `bytes` from or to `data`, which stays valid while the transfer lives.
  // Messages of one tag arrive in the order they were sent, and are received in this order. A
  // message without a posted receive holds up the messages after it.
  std::unique_ptr<Transfer> send(const std::byte* data, int64_t bytes, uint32_t tag);
  // The message may be shorter; a longer one closes the connection.
  std::unique_ptr<Transfer> receive(std::byte* data, int64_t bytes, uint32_t tag);

  int descriptor() const { return socket_.get(); }
  // The events to poll the socket for.
  bool wants_to_read() const { return !closed_ && !held_up_; }
  bool wants_to_write() const { return !closed_ && !sends_.empty(); }
  // Both go as far as they can without waiting.
  void read();
  void write();
  // The system says that both directions are over. Data that has arrived before is handed on to the
  // posted receives, also after a message without a posted receive.
  void note_hang_up();

  // Why no message can arrive or leave any more; nothing while the connection is open.
  const std::optional<std::string>& closed() const { return closed_; }

 private:
  friend class Transfer;
  // In front of every message.
  struct Header {
    uint32_t tag = 0;
    uint32_t magic = 0;
    int64_t bytes = 0;
  };
  static constexpr size_t kBufferBytes = 64 * 1024;

  void withdraw(Transfer& transfer);
  void close(std::string why);
  // Hands on all data that has arrived, and drops messages without a receive.
  void drain();
  // Hands on the bytes in the buffer; false if there are no more.
  bool deliver();
  bool begin_message();
  void count(int64_t bytes);
  std::byte* unread() { return buffer_->data() + begin_; }
  int64_t buffered() const { return static_cast<int64_t>(end_ - begin_); }

  FileDescriptor socket_;
  std::optional<std::string> closed_;
  std::deque<Transfer*> sends_;     // unfinished ones
  std::deque<Transfer*> receives_;  // receives that no message has begun to fill

  std::unique_ptr<std::array<std::byte, kBufferBytes>> buffer_;
  size_t begin_ = 0, end_ = 0;      // the part of it that was not handed on
  std::optional<Header> incoming_;  // the message that is being read
  Transfer* target_ = nullptr;      // its destination; nullptr if that was withdrawn
  int64_t missing_ = 0;             // of its bytes
  bool held_up_ = false;            // no receive is posted for it
  bool draining_ = false;           // nothing waits for a receive any more
};

}  // namespace muster::inline v0_1::internal
