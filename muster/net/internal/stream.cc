#include "muster/net/internal/stream.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace muster::inline v0_1::net {
namespace {

class PlainStream final : public Stream {
 public:
  using Stream::Stream;

  StreamStep read(MutableBytes out) override {
    for (;;) {
      const ssize_t got = ::recv(descriptor(), out.data(), out.size(), MSG_DONTWAIT);
      if (got > 0) return {.moved = static_cast<size_t>(got)};
      if (got == 0) return {.lost = "it closed the connection"};
      if (errno == EINTR) continue;
      return step_of(errno, POLLIN);
    }
  }

  StreamStep write(std::span<const iovec> pieces) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    for (;;) {
      const ssize_t sent = ::sendmsg(descriptor(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0) return {.moved = static_cast<size_t>(sent)};
      if (errno == EINTR) continue;
      return step_of(errno, POLLOUT);
    }
  }

 private:
  static StreamStep step_of(int code, short wait) {
    // ENOBUFS passes, as a full socket does.
    if (code == EAGAIN || code == EWOULDBLOCK || code == ENOBUFS) return {.wait = wait};
    return {.lost = std::generic_category().message(code)};
  }
};

}  // namespace

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
