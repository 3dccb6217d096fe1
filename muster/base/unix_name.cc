#include "muster/base/unix_name.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace muster::inline v0_1 {

UnixName::UnixName(const std::string& name) {
  address_.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address_.sun_path) - 1);
  std::memcpy(address_.sun_path + 1, name.data(), bytes);
  bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace muster::inline v0_1
