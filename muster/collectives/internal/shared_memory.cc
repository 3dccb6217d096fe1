#include "muster/collectives/internal/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {
namespace {

Error unavailable(const std::string& what) {
  return Error(ErrorKind::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

constexpr size_t kTokenBytes = 32;

struct Letter {
  char token[kTokenBytes];
  int64_t rank;
  uint64_t id;
  int64_t bytes;
};

// The abstract name space: nothing on disk, nothing to clean up.
sockaddr_un address_of(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

FileDescriptor make_socket() {
  FileDescriptor made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (made.get() < 0) throw unavailable("cannot make a Unix socket");
  return made;
}

// Whether there is something to read within `timeout`.
bool readable(int fd, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

SharedMemory SharedMemory::create(int64_t bytes) {
  FileDescriptor file(memfd_create("muster", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) throw unavailable("cannot make shared memory");
  const auto no_room = [&] {
    return unavailable(fmt::format("cannot reserve {} bytes of shared memory", bytes));
  };
  const int descriptor = file.get();
  if (ftruncate(descriptor, bytes) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    throw no_room();
  }
  SharedMemory memory = map(std::move(file), bytes);
  // Reserved now: when memory runs out later, a write would be a bus error. Through the mapping
  // first, which asked for huge pages; kernels before 5.14 cannot (EINVAL), and give small ones.
  if (bytes > 0 && madvise(memory.data_, static_cast<size_t>(bytes), MADV_POPULATE_WRITE) != 0 &&
      errno != EINVAL) {
    throw no_room();
  }
  if (bytes > 0 && fallocate(descriptor, 0, 0, bytes) != 0) throw no_room();
  return memory;
}

SharedMemory SharedMemory::map(FileDescriptor file, int64_t bytes) {
  void* data =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    throw unavailable(fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  // Fewer misses of the address cache in large buffers; where the system has no huge pages, it
  // changes nothing.
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  SharedMemory memory;
  memory.file_ = std::move(file);
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

std::string random_token() {
  uint64_t bits[2];
  if (getrandom(bits, sizeof(bits), 0) != sizeof(bits)) {
    throw unavailable("cannot get random numbers");
  }
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  if (!(file >> identity)) {
    throw Error(ErrorKind::kUnavailable, "cannot read /proc/sys/kernel/random/boot_id");
  }
  // Names of sockets are those of a network namespace.
  std::error_code ignored;
  const auto network = std::filesystem::read_symlink("/proc/self/ns/net", ignored);
  return identity + "/" + network.string();
}

FileDescriptor listen_locally(const std::string& name) {
  FileDescriptor listener = make_socket();
  socklen_t length = 0;
  const sockaddr_un address = address_of(name, &length);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    throw unavailable("cannot listen on a Unix socket");
  }
  return listener;
}

FileDescriptor connect_locally(const std::string& name) {
  FileDescriptor made = make_socket();
  socklen_t length = 0;
  const sockaddr_un address = address_of(name, &length);
  while (connect(made.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno != EINTR) throw unavailable("cannot connect over a Unix socket");
  }
  return made;
}

std::optional<FileDescriptor> accept_locally(const FileDescriptor& listener,
                                             std::chrono::milliseconds timeout) {
  if (!readable(listener.get(), timeout)) return std::nullopt;
  FileDescriptor accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (accepted.get() < 0) throw unavailable("cannot accept a connection over a Unix socket");
  return accepted;
}

bool send_parcel(const FileDescriptor& socket, const Parcel& parcel, const FileDescriptor& file) {
  Letter letter{.token = {}, .rank = parcel.rank, .id = parcel.id, .bytes = parcel.bytes};
  std::memcpy(letter.token, parcel.token.data(), std::min(parcel.token.size(), kTokenBytes));
  iovec body{.iov_base = &letter, .iov_len = sizeof(letter)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* attached = CMSG_FIRSTHDR(&message);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = file.get();
  std::memcpy(CMSG_DATA(attached), &fd, sizeof(fd));
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(letter));
}

std::optional<Parcel> receive_parcel(const FileDescriptor& socket,
                                     std::chrono::milliseconds timeout) {
  if (!readable(socket.get(), timeout)) return std::nullopt;
  Letter letter{};
  iovec body{.iov_base = &letter, .iov_len = sizeof(letter)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof(letter))) {
    return std::nullopt;
  }
  const cmsghdr* attached = CMSG_FIRSTHDR(&message);
  if (attached == nullptr || attached->cmsg_type != SCM_RIGHTS) return std::nullopt;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(attached), sizeof(fd));
  return Parcel{.rank = static_cast<int>(letter.rank),
                .token = std::string(letter.token, kTokenBytes),
                .id = letter.id,
                .bytes = letter.bytes,
                .file = FileDescriptor(fd)};
}

bool hung_up(const FileDescriptor& socket) {
  pollfd entry{.fd = socket.get(), .events = POLLRDHUP, .revents = 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace muster::inline v0_1::internal
