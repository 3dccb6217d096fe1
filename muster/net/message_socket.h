// Messages over one connection between two tasks of a job that have proved to each other that they
// belong to it: a short head, which identifies the message, and a payload of raw bytes, which is
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

// A message's beginning: its head, and how many bytes of payload follow.
struct MessageHead {
  std::string text{};
  int64_t payload_bytes = 0;
};

// The options that a socket's owner sets.
struct MessageSocketOptions {
  std::string peer{};                // the peer at the other end, for messages
  std::string peer_task{};           // the name that the peer gave: "worker:1"
  double idle_timeout_seconds = 60;  // the longest standstill within a message
  size_t most_head_bytes = kMaxHeadBytes;
};

// One end of a connection. After an error in the middle of a message the connection is at its end:
// complete messages can still be received, nothing else.
class MUSTER_PART_EXPORT MessageSocket {
 public:
  // For the code that makes connections: connect_messages() and MessageServer.
  MessageSocket(std::unique_ptr<Stream> stream, MessageSocketOptions options);
  // close()
  ~MessageSocket();
  MessageSocket(const MessageSocket&) = delete;
  MessageSocket& operator=(const MessageSocket&) = delete;
  // Before others know of the socket.
  void set_options(MessageSocketOptions options);

  // Sends a message whose payload is the pieces, one after another, and returns when all of it is
  // with the system. Throws PeerLost when the other side is gone, Timeout when no byte moves for
  // the idle time (a message that moves is never cut), Cancelled after close(), and
  // InvalidArgument, having sent nothing, for a head that is too long.
  void send(std::string_view head, std::span<const Bytes> payload = {});
  // Waits for the next message; nothing if none begins within the time. A message that has begun is
  // waited for as long as it moves. Throws as send(), and Corrupt if the bytes are no message.
  // REQUIRES: the payload of the message before is read; else Internal.
  std::optional<MessageHead> receive(double timeout_seconds);
  // Reads the next bytes of the payload of the message received last, until `out` is full. Throws
  // as receive(). REQUIRES: enough bytes are left; else Internal.
  void receive_payload(MutableBytes out);
  // Reads and drops the rest of it. Throws as receive().
  void skip_payload();
  // How many bytes of that payload were not read yet.
  int64_t payload_left() const;

  // Whether open files can be sent with messages: between tasks of one host that use a Unix socket,
  // without TLS.
  bool carries_files() const;
  // Sends a message without payload, with an open file; `file` stays the caller's. Throws as
  // send(), and Internal if the connection carries no files.
  void send_with_file(std::string_view head, const FileDescriptor& file);
  // From now on the last file that comes with a message is kept; before, the system closes such
  // files. For callers that ask the other side for files, before they ask.
  void keep_files();
  // The file that came with the message received last; closed if none did. For the thread that
  // receives.
  FileDescriptor take_file();

  // Ends the connection and all waits, on both sides.
  void close();
  // Whether nothing more can come: the other side has closed the connection, or close() was called.
  // From any thread.
  bool is_over() const;
  // Sends no more, and waits until the other side has closed the connection, or the time is over.
  // The last message is then received: a connection that is closed with unread bytes drops the
  // bytes on their way. For the thread that receives.
  void part(double timeout_seconds);

  // The peer at the other end, for messages: "worker 1 (10.0.0.3)".
  const std::string& peer() const;
  // The name that the peer gave: "worker:1"; "" if it gave none.
  const std::string& peer_task() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The address of a message server, and the connecting task.
struct ConnectOptions {
  std::string address{};              // of the server: "host:port"
  cluster::Job job{};                 // that both belong to
  std::string task{};                 // the connecting task: "worker:1"
  double timeout_seconds = 10;        // for all tries together
  double idle_timeout_seconds = 60;   // as in MessageSocketOptions
  std::function<bool()> cancelled{};  // asked now and then; nothing means never
  bool same_host_shortcut = true;     // a Unix socket where the server is on this host
  bool tries_again = true;            // false: the first try decides
};

// Connects to a server, and tries again, with short pauses, while no process listens there or the
// server accepts no more connections. Both sides prove that they know the job's token, and neither
// sends it; with certificates the connection is TLS, and both check the other's. Throws Timeout,
// naming the address and the last failure (if it does not try again: NotFound for a host without an
// address, Unavailable if no process listens or the server is full, PeerLost if the server closes
// the connection before it has let this task in), InvalidArgument when the server belongs to
// another job, one side does not accept the other's certificate, or nothing would keep
// unauthenticated peers out, and Cancelled.
MUSTER_PART_EXPORT std::unique_ptr<MessageSocket> connect_messages(const ConnectOptions& options);

}  // namespace muster::inline v0_1::net
