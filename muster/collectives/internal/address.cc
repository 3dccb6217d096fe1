#include "muster/collectives/internal/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/network_interfaces.h"

namespace muster::inline v0_1::internal {

std::string local_address(const std::string& host) {
  if (host.empty()) {
    throw invalid_argument("the address of this task is empty",
                           "give the host of this task's entry in the cluster description");
  }
  std::string why_not;
  const std::vector<std::string> resolved = addresses_of(host, &why_not);
  if (!why_not.empty()) {
    throw not_found(fmt::format("cannot resolve '{}', the address of this task: {}", host, why_not),
                    "check the name in the cluster description, or give the number of the address");
  }
  std::vector<NetworkInterface> own = network_interfaces();
  std::erase_if(own, [](const NetworkInterface& interface) {
    return !interface.up || interface.addresses.empty();
  });
  const auto owns = [&](const std::string& address, bool loopback) {
    return std::ranges::any_of(own, [&](const NetworkInterface& interface) {
      return interface.loopback == loopback &&
             std::ranges::find(interface.addresses, address) != interface.addresses.end();
    });
  };
  for (const bool loopback : {false, true}) {
    for (const std::string& address : resolved) {
      if (owns(address, loopback)) return address;
    }
  }
  // An IPv4 address if there is one.
  std::string chosen;
  for (const NetworkInterface& interface : own) {
    const std::string& address = interface.addresses.front();
    const bool better = chosen.empty() || (chosen.find(':') != std::string::npos &&
                                           address.find(':') == std::string::npos);
    if (!interface.loopback && better) chosen = address;
  }
  if (chosen.empty()) chosen = "127.0.0.1";
  const std::string first = resolved.empty() ? "nothing" : resolved.front();
  log::warning_once(fmt::format(
      "'{}' resolves to {}, which is not an address of this machine: peers connect to {} instead",
      host, first, chosen));
  return chosen;
}

}  // namespace muster::inline v0_1::internal
