#include "muster/net/internal/peer.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace muster::inline v0_1::net {
namespace {

template <typename Address>
std::string text_of(int family, const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, &address, text.data(), text.size()) ? text.data() : "";
}

std::string text_of(const in6_addr& address) {
  if (!IN6_IS_ADDR_V4MAPPED(&address)) return text_of(AF_INET6, address);
  in_addr four{};
  std::memcpy(&four, &address.s6_addr[12], sizeof four);
  return text_of(AF_INET, four);
}

}  // namespace

Peer peer_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    return {text_of(AF_INET, four.sin_addr), ntohs(four.sin_port)};
  }
  if (address.ss_family != AF_INET6) return {};
  sockaddr_in6 six{};
  std::memcpy(&six, &address, sizeof six);
  return {text_of(six.sin6_addr), ntohs(six.sin6_port)};
}

std::string neighbourhood(const Peer& peer) {
  in6_addr six{};
  if (inet_pton(AF_INET6, peer.host.c_str(), &six) != 1) return peer.host;
  std::fill(&six.s6_addr[8], &six.s6_addr[16], uint8_t{0});
  return text_of(AF_INET6, six);
}

}  // namespace muster::inline v0_1::net
