#include "muster/collectives/internal/unix_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unix_name.h"

namespace muster::inline v0_1::internal {
namespace {

Error socket_error(const std::string& what) {
  return Error(ErrorKind::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

constexpr size_t kTokenBytes = 64;

// The message that is sent with the descriptor.
struct HandleMessage {
  char token[kTokenBytes];
  int64_t rank{};
  uint64_t id{};
  int64_t bytes{};
};

// A message with space for one descriptor, as sendmsg() and recvmsg() take it.
class Envelope {
 public:
  Envelope() {
    header_.msg_iov = &body_;
    header_.msg_iovlen = 1;
    header_.msg_control = control_;
    // Not CMSG_SPACE: its padding has space for a second descriptor, which would stay open
    // unnoticed.
    header_.msg_controllen = CMSG_LEN(sizeof(int));
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  HandleMessage& message() { return message_; }
  msghdr* header() { return &header_; }
  // The attached header; nullptr if none has come.
  cmsghdr* attached() { return CMSG_FIRSTHDR(&header_); }
  // The descriptor that has come, if one has. The system closes descriptors that did not fit.
  FileDescriptor take_file() {
    const cmsghdr* const it = attached();
    int fd = -1;
    if (it != nullptr && it->cmsg_level == SOL_SOCKET && it->cmsg_type == SCM_RIGHTS &&
        it->cmsg_len == CMSG_LEN(sizeof(int))) {
      std::memcpy(&fd, CMSG_DATA(it), sizeof(fd));
    }
    return FileDescriptor(fd);
  }
  // Some of the sent data did not fit.
  bool was_cut() const { return (header_.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0; }

 private:
  HandleMessage message_{};
  iovec body_{.iov_base = &message_, .iov_len = sizeof(message_)};
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr header_{};
};

FileDescriptor make_socket() {
  FileDescriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.get() < 0) throw socket_error("cannot make a Unix socket");
  return made;
}

}  // namespace

FileDescriptor listen_unix(const std::string& name) {
  FileDescriptor listener = make_socket();
  const UnixName at(name);
  if (bind(listener.get(), at.address(), at.bytes()) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    throw socket_error("cannot listen on a Unix socket");
  }
  return listener;
}

std::optional<FileDescriptor> connect_unix(const std::string& name) {
  FileDescriptor made = make_socket();
  const UnixName at(name);
  while (connect(made.get(), at.address(), at.bytes()) != 0) {
    if (errno == EAGAIN) return std::nullopt;
    if (errno != EINTR) throw socket_error("cannot connect over a Unix socket");
  }
  return made;
}

bool readable(const FileDescriptor& socket, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

std::optional<FileDescriptor> accept_unix(const FileDescriptor& listener,
                                          std::chrono::milliseconds timeout) {
  if (!readable(listener, timeout)) return std::nullopt;
  FileDescriptor accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (accepted.get() < 0) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return std::nullopt;
    throw socket_error("cannot accept a connection over a Unix socket");
  }
  return accepted;
}

bool send_handle(const FileDescriptor& socket, const MemoryHandle& handle,
                 const FileDescriptor& file) {
  Envelope envelope;
  HandleMessage& message = envelope.message();
  std::memcpy(message.token, handle.token.data(), std::min(handle.token.size(), kTokenBytes));
  message.rank = handle.rank;
  message.id = handle.id;
  message.bytes = handle.bytes;
  cmsghdr* attached = envelope.attached();
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::memcpy(CMSG_DATA(attached), &fd, sizeof(fd));
  return sendmsg(socket.get(), envelope.header(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(message));
}

std::optional<MemoryHandle> receive_handle(const FileDescriptor& socket,
                                           std::chrono::milliseconds timeout) {
  if (!readable(socket, timeout)) return std::nullopt;
  Envelope envelope;
  const ssize_t bytes = recvmsg(socket.get(), envelope.header(), MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (bytes < 0) return std::nullopt;
  FileDescriptor file =
      envelope.take_file();  // ours, also when the message is an unauthenticated peer's
  const HandleMessage& message = envelope.message();
  if (bytes != static_cast<ssize_t>(sizeof(message)) || envelope.was_cut() || !file.is_open() ||
      message.rank < 0 || message.rank > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return MemoryHandle{.rank = static_cast<int>(message.rank),
                      .token = std::string(message.token, kTokenBytes),
                      .id = message.id,
                      .bytes = message.bytes,
                      .file = std::move(file)};
}

bool hung_up(const FileDescriptor& socket) {
  pollfd entry{.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace muster::inline v0_1::internal
