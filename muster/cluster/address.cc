#include "muster/cluster/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

namespace muster::inline v0_1::cluster {

std::string host_of(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

std::string join_address(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool is_loopback(const std::string& host) {
  in_addr number{};
  if (inet_pton(AF_INET, host.c_str(), &number) == 1) return ntohl(number.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

}  // namespace muster::inline v0_1::cluster
