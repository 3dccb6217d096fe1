// Messages over one connection between two tasks of a job that have proved to each other that they
// belong to it: a short head, which says what the message is, and a payload of raw bytes, which is
// read straight into the receiver's memory and written straight from the sender's. Thread safety:
// one thread sends and one receives at a time; close() from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/base/file_descriptor.h"
#include "muster/cluster/job_credentials.h"

namespace muster::inline v0_1::net {

class Stream;

// The longest head that a message may have.
inline constexpr size_t kMaxHeadBytes = 1 << 20;

// A message's beginning: what it says, and how many bytes of payload follow.
struct MessageHead {
  std::string text{};
  int64_t payload_bytes = 0;
};

// What a socket's owner says of it.
struct MessageSocketOptions {
  std::string peer{};                // who is at the other end, for messages
  std::string peer_task{};           // what it said it is: "worker:1"
  double idle_timeout_seconds = 60;  // that a message may stand still in
  size_t most_head_bytes = kMaxHeadBytes;
};

// One end of a connection. After an error in the middle of a message the connection is at its end:
// what has come whole can still be received, nothing else.
class MUSTER_PART_EXPORT MessageSocket {
 public:
  // For those who make connections: connect_messages() and MessageServer.
  MessageSocket(std::unique_ptr<Stream> stream, MessageSocketOptions options);
  // close()
  ~MessageSocket();
  MessageSocket(const MessageSocket&) = delete;
  MessageSocket& operator=(const MessageSocket&) = delete;
  // Before others know of the socket.
  void set_options(MessageSocketOptions options);

  // Sends a message whose payload is the pieces, one after another, and returns when all of it is
  // with the system. Throws PeerLost when the other side is gone, Timeout when nothing moves for
  // the idle time (one that moves is never cut), Cancelled after close(), and InvalidArgument,
  // having sent nothing, for a head that is too long.
  void send(std::string_view head, std::span<const Bytes> payload = {});
  // Waits for the next message; nothing when none begins within the time. One that has begun is
  // waited for as long as it moves. Throws as send(), and Corrupt when what comes is not a message.
  // REQUIRES: nothing is left of the payload of the message before; else Internal.
  std::optional<MessageHead> receive(double timeout_seconds);
  // Reads the next bytes of the payload of the message received last, until `out` is full. Throws
  // as receive(). REQUIRES: so many are left; else Internal.
  void receive_payload(MutableBytes out);
  // Reads and drops what is left of it. Throws as receive().
  void skip_payload();
  // How many bytes of that payload were not read yet.
  int64_t payload_left() const;

  // Whether open files can travel next to messages: between tasks of one host that talk over a Unix
  // socket, without TLS.
  bool carries_files() const;
  // Sends a message without payload, with an open file next to it; `file` stays the caller's.
  // Throws as send(), and Internal where the connection carries no files.
  void send_with_file(std::string_view head, const FileDescriptor& file);
  // From now on a file that comes next to a message is kept, the last one that came; before, the
  // system closes what comes. For who asks the other side for files, before it does.
  void keep_files();
  // The file that came next to the message received last; closed when none did. For the thread that
  // receives.
  FileDescriptor take_file();

  // Ends the connection and all waits, on both sides.
  void close();
  // Whether nothing more can come: the other side has closed the connection, or close() was called.
  // From any thread.
  bool is_over() const;
  // Sends no more, and waits until the other side has closed the connection, or for this long. What
  // was sent last is heard then: a connection that is closed with bytes unread takes back what is
  // on its way. For the thread that receives.
  void part(double timeout_seconds);

  // The name of the peer, for messages: "worker 1 (10.0.0.3)".
  const std::string& peer() const;
  // What it said it is: "worker:1"; "" when it did not say.
  const std::string& peer_task() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Where a message server is, and who connects to it.
struct ConnectOptions {
  std::string address{};              // of the server: "host:port"
  cluster::Job job{};                 // that both belong to
  std::string task{};                 // who connects: "worker:1"
  double timeout_seconds = 10;        // for all tries together
  double idle_timeout_seconds = 60;   // as MessageSocketOptions has it
  std::function<bool()> cancelled{};  // asked now and then; nothing means never
  bool same_host_shortcut = true;     // a Unix socket where the server is on this host
  bool tries_again = true;            // false: the first try decides
};

// Connects to a server, and tries again, with short pauses, while no process listens there or it
// has no room. Both sides prove that they know the job's token, and neither sends it; with
// certificates the connection is TLS, and both check the other's. Throws Timeout, naming the
// address and what happened last (where it does not try again: NotFound for a host without an
// address, Unavailable if no process listens or there is no room, PeerLost where the server closes
// the connection before it has let this task in), InvalidArgument when the server belongs to
// another job, one side does not accept the other's certificate, or nothing would keep
// unauthenticated peers out, and Cancelled.
MUSTER_PART_EXPORT std::unique_ptr<MessageSocket> connect_messages(const ConnectOptions& options);

}  // namespace muster::inline v0_1::net
