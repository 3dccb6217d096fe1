#include "muster/net/internal/local_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/base/host_identity.h"
#include "muster/base/secret.h"
#include "muster/base/unix_name.h"

namespace muster::inline v0_1::net {
namespace {

FileDescriptor make_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

std::string local_name(const std::string& address, const cluster::Job& job) {
  std::string name = "muster-messages-";
  for (const char byte :
       proof_of(job.token, fmt::format("{}/{}/{}", host_identity(), ::geteuid(), address)))
    name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name;
}

FileDescriptor listen_local(const std::string& name) {
  FileDescriptor socket = make_socket();
  const UnixName at(name);
  if (::bind(socket.get(), at.address(), at.bytes()) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    return {};
  return socket;
}

FileDescriptor connect_local(const std::string& name) {
  FileDescriptor socket = make_socket();
  const UnixName at(name);
  if (::connect(socket.get(), at.address(), at.bytes()) != 0 || !is_same_user(socket.get()))
    return {};
  return socket;
}

}  // namespace muster::inline v0_1::net
