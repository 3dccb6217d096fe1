#include "muster/net/internal/dial.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include "muster/net/port.h"

namespace muster::inline v0_1::net {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How often `cancelled` is asked.
constexpr auto kLook = milliseconds(50);

std::string text_of(int code) { return std::generic_category().message(code); }

bool is_connected_to_itself(int socket) {
  sockaddr_storage own{}, other{};
  socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         ::getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_bytes) == 0 &&
         own_bytes == other_bytes && std::memcmp(&own, &other, own_bytes) == 0;
}

// Why the connection was not made; "" if it was.
std::string wait_for(int socket, Steady::time_point until, const std::function<bool()>& cancelled) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - Steady::now());
    pollfd entry{.fd = socket, .events = POLLOUT, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(std::clamp(left, milliseconds(0), kLook).count())) > 0)
      break;
    if (left <= milliseconds(0)) return "no answer";
    if (cancelled && cancelled()) return "cancelled";
  }
  int code = 0;
  socklen_t bytes = sizeof code;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) code = errno;
  if (code != 0) return text_of(code);
  // If no process listens at a port that the system may give to connecting sockets, it may give
  // this very port.
  return is_connected_to_itself(socket) ? text_of(ECONNREFUSED) : "";
}

}  // namespace

Dialled dial(const std::string& address, Steady::time_point until,
             const std::function<bool()>& cancelled) {
  const HostPort where = split_address(address);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code =
          ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &wanted, &list);
      code != 0) {
    return {.socket = {}, .reason = ::gai_strerror(code), .unknown_host = true};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(list, ::freeaddrinfo);
  std::vector<const addrinfo*> found;
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) found.push_back(item);
  Dialled result;
  for (size_t i = 0; i < found.size(); ++i) {
    FileDescriptor socket(
        ::socket(found[i]->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    // An address that leads nowhere leaves time to the others.
    const auto now = Steady::now();
    const auto share = now + (until - now) / static_cast<int>(found.size() - i);
    if (!socket.is_open()) {
      result.reason = text_of(errno);
    } else if (::connect(socket.get(), found[i]->ai_addr, found[i]->ai_addrlen) != 0 &&
               errno != EINPROGRESS) {
      result.reason = text_of(errno);
    } else {
      result.reason = wait_for(socket.get(), share, cancelled);
    }
    if (!result.reason.empty()) continue;
    result.socket = std::move(socket);
    break;
  }
  return result;
}

void prepare_for_data(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  int domain = 0;
  socklen_t bytes = sizeof domain;
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes);
  if (domain == AF_UNIX) {
    // The system's default is a few pages; for TCP it raises its default by itself.
    constexpr int kLocalBytes = 4 << 20;
    set(SOL_SOCKET, SO_SNDBUF, kLocalBytes);
    return;
  }
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  constexpr int kIdleSeconds = 30, kBetweenSeconds = 10, kProbes = 3;
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kBetweenSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace muster::inline v0_1::net
