#include "muster/net/internal/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/network_interfaces.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::net {
namespace {

using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Found look_up(const std::string& host, int port, const std::string& shown_as) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
      code != 0) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("cannot look up {}: {}", shown_as, ::gai_strerror(code)));
  }
  return {found, ::freeaddrinfo};
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  // Both families have the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

Listener::Listener(const std::string& host, int port, const std::string& shown_as,
                   const std::string& hint)
    : port_(port) {
  if (host == "0.0.0.0") {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(port));
    // One socket for both. Where the system has no IPv6, the loop below listens for IPv4 alone.
    if (add(AF_INET6, &any, sizeof any) == 0) return;
  }
  const Found found = look_up(host, port, shown_as);
  // A name that has IPv4 may have an IPv6 that leads nowhere, which is normal.
  int failed = 0;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* item = found.get(); item; item = item->ai_next) {
      if (item->ai_family != family) continue;
      sockaddr_storage address{};
      std::memcpy(&address, item->ai_addr, item->ai_addrlen);
      reinterpret_cast<sockaddr_in&>(address).sin_port = htons(static_cast<uint16_t>(port_));
      const int code = add(family, &address, item->ai_addrlen);
      if (code != 0 && sockets_.empty()) failed = failed ? failed : code;
    }
    if (failed) break;
  }
  if (!sockets_.empty() && !failed) return;
  close();
  const int reason = failed ? failed : EADDRNOTAVAIL;
  throw from_errno(reason, fmt::format("cannot listen on {}", shown_as),
                   reason == EADDRINUSE ? hint : "");
}

Listener Listener::at(const std::string& address) {
  const HostPort wanted = split_address(address);
  const std::string host =
      is_loopback(wanted.host) || is_own_address(wanted.host) ? wanted.host : "0.0.0.0";
  return {host, wanted.port, address,
          "another process listens on this port, perhaps the same task, started twice: stop it, or "
          "choose another port in TF_CONFIG, or for --rendezvous, on all machines"};
}

int Listener::add(int family, const void* address, unsigned bytes) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  const int on = 1, off = 0;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr* const name = static_cast<const sockaddr*>(address);
  if (family == AF_INET6) {
    const bool any =
        IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(name)->sin6_addr);
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, any ? &off : &on, sizeof on);
  }
  if (::bind(socket, name, bytes) != 0 || ::listen(socket, SOMAXCONN) != 0) {
    const int failed = errno;
    ::close(socket);
    return failed;
  }
  sockets_.push_back(socket);
  if (port_ == 0) port_ = port_of(socket);
  return 0;
}

Listener::Listener(Listener&& other) noexcept
    : sockets_(std::exchange(other.sockets_, {})), port_(other.port_) {}

Listener::~Listener() { close(); }

void Listener::close() {
  for (const int socket : std::exchange(sockets_, {})) ::close(socket);
}

}  // namespace muster::inline v0_1::net
