// The bytes of a new file, written past the system's cache of files where they are many. A copy of
// a large file in that cache costs the processor more than the write, and takes the place of data
// that the program reads again. Bytes whose address equals their place in the file modulo kBlock
// are written from where they are; others pass through a buffer. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "muster/base/bytes.h"

namespace muster::inline v0_1 {

class DirectOutput {
 public:
  // A part of a file of at least this size is written past the cache, in bytes.
  static constexpr size_t kLarge = size_t{1} << 20;
  // Addresses, places in the file and sizes of such writes must be multiples of the disk's blocks:
  // of 512 or 4,096 bytes on the disks there are.
  static constexpr size_t kBlock = 4096;

  // `fd` is open for writing, stands at the beginning of an empty file, and outlives this object.
  explicit DirectOutput(int fd) : fd_(fd) {}

  // Writes the bytes, or keeps the last of them back until the next call. Nobody may change them
  // until it returns. Returns errno, or 0.
  int append(Bytes bytes);
  // Writes the bytes that were kept back. Returns errno, or 0.
  int flush();

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  // Returns whether there is a buffer, and the file system seems able to pass by its cache.
  bool begin();
  // Writes through the cache.
  int put_cached(Bytes bytes);
  // Writes the first `size` bytes of the buffer past the cache; keeps the rest at its beginning.
  int put(size_t size);
  // Writes whole blocks past the cache, if the file system can do it.
  int write_direct(Bytes bytes);
  // Returns whether the file system can do it.
  bool set_direct(bool direct);

  const int fd_;
  size_t position_ = 0;  // of the file, in bytes
  std::unique_ptr<std::byte, Free> buffer_;
  size_t kept_ = 0;       // bytes in the buffer
  bool direct_ = false;   // the file's flag now
  bool possible_ = true;  // as far as is known
};

}  // namespace muster::inline v0_1
