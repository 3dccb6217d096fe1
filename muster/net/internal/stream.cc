#include "muster/net/internal/stream.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::net {
namespace {

// Room for one file in addition to the bytes.
class Attachment {
 public:
  void attach_to(msghdr& message) {
    message.msg_control = bytes_;
    // Not CMSG_SPACE: its padding has room for a second file, which would stay open unseen.
    message.msg_controllen = CMSG_LEN(sizeof(int));
  }
  static void put(msghdr& message, int file) {
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  // Closed when none came.
  static FileDescriptor take(msghdr& message) {
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    int file = -1;
    if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
      std::memcpy(&file, CMSG_DATA(header), sizeof file);
    return FileDescriptor(file);
  }

 private:
  alignas(cmsghdr) char bytes_[CMSG_SPACE(sizeof(int))] = {};
};

class PlainStream final : public Stream {
 public:
  explicit PlainStream(FileDescriptor socket) : Stream(std::move(socket)) {
    int domain = 0;
    socklen_t bytes = sizeof domain;
    local_ = ::getsockopt(descriptor(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
             domain == AF_UNIX;
  }

  bool carries_files() const override { return local_; }
  void keep_files() override { keeps_files_ = local_; }
  FileDescriptor take_file() override { return std::exchange(file_, {}); }

  StreamStep write_with_file(std::span<const iovec> pieces, const FileDescriptor& file) override {
    Attachment attachment;
    msghdr message = message_of(pieces);
    attachment.attach_to(message);
    Attachment::put(message, file.get());
    return send(message);
  }

  StreamStep read(MutableBytes out) override {
    for (;;) {
      const ssize_t got = keeps_files_ ? receive_with_file(out)
                                       : ::recv(descriptor(), out.data(), out.size(), MSG_DONTWAIT);
      if (got > 0) return {.moved = static_cast<size_t>(got)};
      if (got == 0) return {.lost = "it closed the connection"};
      if (errno == EINTR) continue;
      return step_of(errno, POLLIN);
    }
  }

  StreamStep write(std::span<const iovec> pieces) override { return send(message_of(pieces)); }

 private:
  static msghdr message_of(std::span<const iovec> pieces) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    return message;
  }

  ssize_t receive_with_file(MutableBytes out) {
    iovec piece{.iov_base = out.data(), .iov_len = out.size()};
    msghdr message = message_of({&piece, 1});
    Attachment attachment;
    attachment.attach_to(message);
    const ssize_t got = ::recvmsg(descriptor(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0) {
      if (FileDescriptor file = Attachment::take(message); file.is_open()) file_ = std::move(file);
    }
    return got;
  }

  StreamStep send(const msghdr& message) {
    for (;;) {
      const ssize_t sent = ::sendmsg(descriptor(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0) return {.moved = static_cast<size_t>(sent)};
      if (errno == EINTR) continue;
      return step_of(errno, POLLOUT);
    }
  }

  static StreamStep step_of(int code, short wait) {
    // ENOBUFS passes, as a full socket does.
    if (code == EAGAIN || code == EWOULDBLOCK || code == ENOBUFS) return {.wait = wait};
    return {.lost = std::generic_category().message(code)};
  }

  bool local_ = false;
  bool keeps_files_ = false;
  FileDescriptor file_;
};

}  // namespace

StreamStep Stream::write_with_file(std::span<const iovec>, const FileDescriptor&) {
  throw internal_error("an open file was to go over a connection that carries none");
}

Stream::Time Stream::now() const { return Time::clock::now(); }

bool Stream::wait(Time until, short events) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
    pollfd entry{.fd = descriptor(), .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
  }
}

void Stream::shut() { ::shutdown(descriptor(), SHUT_RDWR); }

void Stream::finish() { ::shutdown(descriptor(), SHUT_WR); }

int Stream::on_their_way() const {
  int bytes = 0;
  return ::ioctl(descriptor(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

std::unique_ptr<Stream> plain_stream(FileDescriptor socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace muster::inline v0_1::net
