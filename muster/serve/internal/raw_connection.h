// A connection to a server of this machine that sends bytes as they are, for tests.
// Thread safety: one thread.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::serve::internal {

class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    open_ = connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  // False once the server has closed the connection.
  bool send(std::string_view bytes) {
    while (open_ && !bytes.empty()) {
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      open_ = count > 0;
      if (open_) bytes.remove_prefix(static_cast<size_t>(count));
    }
    return open_;
  }

  // Sends no more.
  void end() { shutdown(socket_.get(), SHUT_WR); }

  // What comes until `mark` has, or the server closes.
  std::string until(std::string_view mark) {
    std::string got;
    while (got.find(mark) == std::string::npos) {
      char part[4096];
      const ssize_t count = recv(socket_.get(), part, sizeof part, 0);
      if (count <= 0) break;
      got.append(part, static_cast<size_t>(count));
    }
    return got;
  }

  // What comes until the server closes.
  std::string rest() { return until(std::string_view("\0no answer has this", 19)); }

 private:
  FileDescriptor socket_;
  bool open_ = false;
};

// The answers in what a server has sent: each begins with its status.
inline int count_answers(std::string_view text) {
  constexpr std::string_view kBegin = "HTTP/1.1 ";
  int count = 0;
  for (size_t at = text.find(kBegin); at != std::string_view::npos;
       at = text.find(kBegin, at + 1)) {
    const size_t status = at + kBegin.size();
    if (status < text.size() && text[status] >= '1' && text[status] <= '5') ++count;
  }
  return count;
}

}  // namespace muster::inline v0_1::serve::internal
