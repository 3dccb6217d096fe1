#include "muster/base/network_interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1 {
namespace {

std::string numeric(const sockaddr* address) {
  char text[NI_MAXHOST] = {};
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

}  // namespace

std::vector<NetworkInterface> network_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, &freeifaddrs);
  std::vector<NetworkInterface> found;
  for (const int family : {AF_PACKET, AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      auto place = std::ranges::find(found, entry->ifa_name, &NetworkInterface::name);
      if (place == found.end()) {
        found.push_back({.name = entry->ifa_name,
                         .addresses = {},
                         .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                         .up = (entry->ifa_flags & IFF_UP) != 0});
        place = found.end() - 1;
      }
      if (family == AF_PACKET) continue;
      const std::string address = numeric(entry->ifa_addr);
      const bool link_local = address.find('%') != std::string::npos;
      if (!address.empty() && !link_local) place->addresses.push_back(address);
    }
  }
  return found;
}

std::vector<std::string> addresses_of(const std::string& host, std::string* why_not) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = getaddrinfo(host.c_str(), nullptr, &hints, &list); code != 0) {
    if (why_not != nullptr) *why_not = gai_strerror(code);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, &freeaddrinfo);
  std::vector<std::string> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const std::string address = numeric(entry->ai_addr);
    if (!address.empty()) found.push_back(address);
  }
  return found;
}

std::string own_address_towards(const std::string& host, std::string* why_not) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  // A socket of datagrams is bound by connect(), which needs a port.
  if (const int code = getaddrinfo(host.c_str(), "9", &hints, &list); code != 0) {
    if (why_not != nullptr) *why_not = gai_strerror(code);
    return "";
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, &freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const FileDescriptor socket(
        ::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, entry->ai_protocol));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (socket.is_open() && ::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0)
      return numeric(reinterpret_cast<const sockaddr*>(&own));
    if (why_not != nullptr) *why_not = std::strerror(errno);
  }
  return "";
}

std::string host_for_peers(const std::string& named, const std::string& peer) {
  const std::vector<std::string> resolved = addresses_of(named);
  if (resolved.empty() || std::ranges::any_of(resolved, is_own_address)) return named;
  const std::string own = own_address_towards(peer);
  for (const NetworkInterface& interface : network_interfaces()) {
    const bool has = std::ranges::find(interface.addresses, own) != interface.addresses.end();
    if (has && !interface.loopback) return own;
  }
  return named;
}

bool is_own_address(const std::string& host) {
  return std::ranges::any_of(network_interfaces(), [&](const NetworkInterface& interface) {
    return std::ranges::find(interface.addresses, host) != interface.addresses.end();
  });
}

}  // namespace muster::inline v0_1
