#include "muster/collectives/internal/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::internal {
namespace {

std::string numeric(const sockaddr* address) {
  char text[NI_MAXHOST] = {};
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

struct Interface {
  std::string address;
  bool loopback = false;
};

// Addresses of running interfaces, IPv4 first.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw from_errno(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> guard(list, &freeifaddrs);
  std::vector<Interface> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if ((entry->ifa_flags & IFF_UP) == 0) continue;
      const std::string text = numeric(entry->ifa_addr);
      if (text.empty() || text.find('%') != std::string::npos) continue;  // link-local
      found.push_back({text, (entry->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  return found;
}

}  // namespace

std::string local_address(const std::string& host) {
  if (host.empty()) {
    throw invalid_argument("the address of this task is empty",
                           "give the host of this task's entry in the cluster description");
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = getaddrinfo(host.c_str(), nullptr, &hints, &list); code != 0) {
    throw not_found(
        fmt::format("cannot resolve '{}', the address of this task: {}", host, gai_strerror(code)),
        "check the name in the cluster description, or give the number of the address");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> guard(list, &freeaddrinfo);
  std::vector<std::string> resolved;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    resolved.push_back(numeric(entry->ai_addr));
  }
  const std::vector<Interface> own = interfaces();
  const auto owns = [&](const std::string& address, bool loopback) {
    return std::ranges::any_of(own, [&](const Interface& interface) {
      return interface.address == address && interface.loopback == loopback;
    });
  };
  for (const bool loopback : {false, true}) {
    for (const std::string& address : resolved) {
      if (owns(address, loopback)) return address;
    }
  }
  const auto outside =
      std::ranges::find_if(own, [](const Interface& interface) { return !interface.loopback; });
  const std::string first = resolved.empty() ? "nothing" : resolved.front();
  const std::string chosen = outside == own.end() ? "127.0.0.1" : outside->address;
  log::warning_once(fmt::format(
      "'{}' resolves to {}, which no interface of this machine owns: peers connect to {} instead",
      host, first, chosen));
  return chosen;
}

}  // namespace muster::inline v0_1::internal
