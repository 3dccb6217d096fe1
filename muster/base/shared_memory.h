// Memory that processes of one host share. No LibTorch here. Thread safety: a value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/base/export.h"
#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1 {

// A mapped memory file without a name. The system frees it when the last process that maps it ends.
class MUSTER_PART_EXPORT SharedMemory {
 public:
  SharedMemory() = default;
  // Zeroed and reserved: writing to it cannot fail. Throws Unavailable when there is not enough
  // memory.
  static SharedMemory create(int64_t bytes);
  // Maps a file that create() made in this process or in another one. Throws Unavailable; Corrupt
  // for a file of another size, and one that could be cut off later: reading it would be a bus
  // error.
  static SharedMemory map(FileDescriptor file, int64_t bytes);
  // The same, but the mapping is read-only.
  static SharedMemory map_to_read(FileDescriptor file, int64_t bytes);
  // From now on no process can map the file to write it; existing mappings stay as they are. Throws
  // Unavailable if the system cannot do that (Linux before 5.1).
  void keep_others_from_writing() const;
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  const FileDescriptor& file() const { return file_; }
  // The mapping works without the descriptor, and a process may open only a limited number of them.
  void close_file() { file_ = FileDescriptor(); }

 private:
  static SharedMemory map(FileDescriptor file, int64_t bytes, int protection);

  FileDescriptor file_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace muster::inline v0_1
