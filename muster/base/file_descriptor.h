// A file descriptor that closes itself. Thread safety: a value.
#pragma once

#include <unistd.h>

#include <utility>

namespace muster::inline v0_1 {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // Its owner is the caller from now on.
  int release() { return std::exchange(fd_, -1); }
  // False for a default-constructed one.
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace muster::inline v0_1
