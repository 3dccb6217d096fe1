#include "muster/net/port.h"

#include <fmt/format.h>

#include <charconv>

#include "muster/base/error.h"

namespace muster::inline v0_1::net {
HostPort split_address(const std::string& address) {
  auto fail = [&] {
    return invalid_argument(fmt::format("\"{}\" is not a network address", address),
                            "write it as host:port");
  };
  size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) throw fail();
  HostPort result{.host = address.substr(0, colon)};
  if (result.host.front() == '[' && result.host.back() == ']')
    result.host = result.host.substr(1, result.host.size() - 2);
  const char* end = address.data() + address.size();
  auto [stop, code] = std::from_chars(address.data() + colon + 1, end, result.port);
  if (code != std::errc() || stop != end || result.port < 0 || result.port > 65535 ||
      result.host.empty())
    throw fail();
  return result;
}

}  // namespace muster::inline v0_1::net
