#include "muster/collectives/internal/tcp_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {
namespace {

Error socket_error(const std::string& what, int code) {
  return Error(ErrorKind::kUnavailable, fmt::format("{}: {}", what, std::strerror(code)));
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// What `host` and `port`, both numeric, are to the system.
AddressList parse(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); code != 0) {
    throw Error(ErrorKind::kUnavailable, fmt::format("'{}' port '{}' is not an address: {}", host,
                                                     port, gai_strerror(code)));
  }
  return {list, &freeaddrinfo};
}

std::string text_of(const sockaddr_storage& address, socklen_t length, std::string* port) {
  char host[NI_MAXHOST] = {};
  char service[NI_MAXSERV] = {};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof(host), service,
                  sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  if (port != nullptr) *port = service;
  return host;
}

FileDescriptor make_socket(int family) {
  FileDescriptor made(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) throw socket_error("cannot open a TCP socket", errno);
  return made;
}

// Small messages leave at once.
void set_no_delay(const FileDescriptor& socket) {
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace

TcpListener listen_tcp(const std::string& host) {
  const AddressList address = parse(host, "0");
  TcpListener listener{.socket = make_socket(address->ai_family), .address = {}};
  const int fd = listener.socket.get();
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    throw socket_error(fmt::format("cannot listen on {}", host), errno);
  }
  std::string port;
  const std::string number = text_of(own, length, &port);
  listener.address = own.ss_family == AF_INET6 ? fmt::format("[{}]:{}", number, port)
                                               : fmt::format("{}:{}", number, port);
  return listener;
}

bool spares_the_listener(int code) {
  switch (code) {
    case EAGAIN:
#if EAGAIN != EWOULDBLOCK
    case EWOULDBLOCK:
#endif
    case EINTR:
    // The peer may have closed already. Linux passes on what the network reported for the new
    // connection; accept(2) asks that these be treated like EAGAIN.
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

std::optional<AcceptedSocket> accept_tcp(const FileDescriptor& listener) {
  sockaddr_storage from{};
  socklen_t length = sizeof(from);
  FileDescriptor socket(accept4(listener.get(), reinterpret_cast<sockaddr*>(&from), &length,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    if (spares_the_listener(errno)) return std::nullopt;
    throw socket_error("cannot accept a TCP connection", errno);
  }
  set_no_delay(socket);
  return AcceptedSocket{.socket = std::move(socket), .host = text_of(from, length, nullptr)};
}

FileDescriptor start_connect_tcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const AddressList parsed =
      parse(host, colon == std::string::npos ? "" : address.substr(colon + 1));
  FileDescriptor socket = make_socket(parsed->ai_family);
  set_no_delay(socket);
  if (connect(socket.get(), parsed->ai_addr, parsed->ai_addrlen) != 0 && errno != EINPROGRESS)
    throw socket_error(fmt::format("cannot connect to {}", address), errno);
  return socket;
}

std::string connect_error(const FileDescriptor& socket) {
  int code = 0;
  socklen_t length = sizeof(code);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length) != 0) code = errno;
  return code == 0 ? std::string() : std::strerror(code);
}

}  // namespace muster::inline v0_1::internal
