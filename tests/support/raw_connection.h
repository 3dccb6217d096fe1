// A plain TCP connection of a test, which sends bytes that no client of ours would send. Thread
// safety: none.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

namespace muster::inline v0_1 {

class RawConnection {
 public:
  // To a port of 127.0.0.1, from that address or another loopback one.
  explicit RawConnection(int port, const char* from = "127.0.0.1")
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in here = address(from, 0), there = address("127.0.0.1", port);
    connected_ = ::bind(fd_, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0 &&
                 ::connect(fd_, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0;
  }
  ~RawConnection() { close(); }
  RawConnection(RawConnection&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  RawConnection& operator=(RawConnection&&) = delete;

  bool connected() const { return connected_; }
  int own_port() const {
    sockaddr_in name{};
    socklen_t size = sizeof name;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size);
    return ntohs(name.sin_port);
  }
  // Without waiting; bytes that the other end does not take are lost.
  void send(std::string_view bytes) {
    (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // Waits until all is taken; false once the other end has closed the connection.
  bool send_all(std::string_view bytes) {
    while (connected_ && !bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      connected_ = count > 0;
      if (connected_) bytes.remove_prefix(static_cast<size_t>(count));
    }
    return connected_;
  }
  // Sends no more.
  void end() { ::shutdown(fd_, SHUT_WR); }
  // The received bytes until `mark` has come, or the other end closes.
  std::string until(std::string_view mark) {
    std::string got;
    while (mark.empty() || got.find(mark) == std::string::npos) {
      char part[4096];
      const ssize_t count = ::recv(fd_, part, sizeof part, 0);
      if (count <= 0) break;
      got.append(part, static_cast<size_t>(count));
    }
    return got;
  }
  // The received bytes until the other end closes.
  std::string rest() { return until(""); }
  // Whether the other end closes it within `ms` milliseconds.
  bool ends_within(int ms) {
    char buffer[4096];
    for (;;) {
      pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, ms) <= 0) return false;
      if (::recv(fd_, buffer, sizeof buffer, 0) <= 0) return true;
    }
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  static sockaddr_in address(const char* host, int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }

  int fd_;
  bool connected_ = false;
};

// The answers of HTTP/1.1 in the bytes of a server: each begins with its status.
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

// The beginning of a message with which a task would begin to prove that it belongs to a job.
inline std::string unfinished_proof() {
  constexpr char kHeadBytes = 100;
  return std::string("MuM1") + kHeadBytes + std::string(11, '\0') + "hello";
}

}  // namespace muster::inline v0_1
