// Memory that processes of one host share, and the Unix sockets over which they hand it to each
// other. No LibTorch here. Thread safety: of plain values; one thread sends on a socket and one
// receives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace muster::inline v0_1::internal {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// A mapped memory file without a name: it is gone when the last process that has it is.
class SharedMemory {
 public:
  SharedMemory() = default;
  // Zeroed and reserved: writing to it cannot fail. Throws Unavailable when there is no room.
  static SharedMemory create(int64_t bytes);
  // A file that create() made, here or elsewhere. Throws Unavailable.
  static SharedMemory map(FileDescriptor file, int64_t bytes);
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  const FileDescriptor& file() const { return file_; }
  // The mapping needs no descriptor, of which a process has few.
  void close_file() { file_ = FileDescriptor(); }

 private:
  FileDescriptor file_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// What the members of a group send each other: a piece of memory, and who they are.
struct Parcel {
  int rank = 0;
  std::string token;  // 32 characters; proves that the sender has read the receiver's invitation
  uint64_t id = 0;
  int64_t bytes = 0;
  FileDescriptor file;
};

// 32 random hexadecimal digits.
std::string random_token();
// The same in all processes of this host that can reach each other's sockets, until it restarts: a
// container with a network of its own is another one. Throws Unavailable.
std::string host_identity();

// Listens under an abstract name of this network namespace. Throws Unavailable, as the next two.
FileDescriptor listen_locally(const std::string& name);
FileDescriptor connect_locally(const std::string& name);
// Nothing when nobody connected in time.
std::optional<FileDescriptor> accept_locally(const FileDescriptor& listener,
                                             std::chrono::milliseconds timeout);
// False when the receiver is gone or does not take any more; never blocks. `file` stays the
// caller's.
bool send_parcel(const FileDescriptor& socket, const Parcel& parcel, const FileDescriptor& file);
// Nothing when none came in time, or the sender is gone.
std::optional<Parcel> receive_parcel(const FileDescriptor& socket,
                                     std::chrono::milliseconds timeout);
// Whether the other side has closed the socket: its process has ended.
bool hung_up(const FileDescriptor& socket);

}  // namespace muster::inline v0_1::internal
