#include "muster/base/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Error memory_error(const std::string& what) {
  return Error(ErrorKind::kUnavailable, fmt::format("{}: {}", what, std::strerror(errno)));
}

// The sender of the file may have given a wrong size.
void check_file(const FileDescriptor& file, int64_t bytes) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw memory_error("cannot look at shared memory");
  if (bytes <= 0 || status.st_size != bytes) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("shared memory of {} bytes is said to have {}", status.st_size, bytes));
  }
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    throw Error(ErrorKind::kCorrupt, "the size of shared memory is not sealed");
}

}  // namespace

SharedMemory SharedMemory::create(int64_t bytes) {
  FileDescriptor file(memfd_create("muster", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) throw memory_error("cannot make shared memory");
  const auto no_room = [&] {
    return memory_error(fmt::format("cannot reserve {} bytes of shared memory", bytes));
  };
  const int descriptor = file.get();
  if (ftruncate(descriptor, bytes) != 0 || fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
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

void SharedMemory::keep_others_from_writing() const {
#ifndef F_SEAL_FUTURE_WRITE
  constexpr int F_SEAL_FUTURE_WRITE = 0x0010;
#endif
  if (fcntl(file_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0)
    throw memory_error("cannot keep others from writing shared memory");
}

SharedMemory SharedMemory::map(FileDescriptor file, int64_t bytes) {
  return map(std::move(file), bytes, PROT_READ | PROT_WRITE);
}

SharedMemory SharedMemory::map_to_read(FileDescriptor file, int64_t bytes) {
  return map(std::move(file), bytes, PROT_READ);
}

SharedMemory SharedMemory::map(FileDescriptor file, int64_t bytes, int protection) {
  check_file(file, bytes);
  void* data = mmap(nullptr, static_cast<size_t>(bytes), protection, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    throw memory_error(fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  // Fewer misses of the address cache in large buffers; if the system has no huge pages, it changes
  // nothing.
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

}  // namespace muster::inline v0_1
