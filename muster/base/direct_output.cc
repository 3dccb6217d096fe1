#include "muster/base/direct_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "muster/base/internal/write_all.h"

namespace muster::inline v0_1 {
namespace {

constexpr size_t kAlignment = DirectOutput::kBlock;
// Large enough for a disk to be as fast as it can be.
constexpr size_t kBuffer = size_t{4} << 20;
// The most that one call writes from the caller's memory, in bytes: it bounds what the disk's queue
// gets at a time.
constexpr size_t kMostAtOnce = size_t{64} << 20;

size_t misalignment(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address) % kAlignment;
}

}  // namespace

int DirectOutput::append(Bytes bytes) {
  if (kept_ == 0 && (bytes.size() < kLarge || !begin())) return put_cached(bytes);
  if (kept_ == 0 && position_ % kAlignment != 0) {
    const size_t size = kAlignment - position_ % kAlignment;
    if (const int code = put_cached(bytes.first(size))) return code;
    bytes = bytes.subspan(size);
  }
  while (!bytes.empty()) {
    size_t size = std::min(bytes.size(), kBuffer - kept_);
    // Bytes that are as far from a block in memory as in the file need no copy in the buffer,
    // except those before the first block and after the last one.
    if (misalignment(bytes.data()) == kept_ % kAlignment && bytes.size() >= 2 * kAlignment) {
      if (kept_ % kAlignment == 0) {
        size = std::min(bytes.size() - bytes.size() % kAlignment, kMostAtOnce);
        if (const int code = put(kept_)) return code;
        if (const int code = write_direct(bytes.first(size))) return code;
        bytes = bytes.subspan(size);
        continue;
      }
      size = std::min(size, kAlignment - kept_ % kAlignment);
    }
    std::memcpy(buffer_.get() + kept_, bytes.data(), size);
    kept_ += size;
    bytes = bytes.subspan(size);
    if (kept_ < kBuffer) continue;
    if (const int code = put(kBuffer)) return code;
  }
  return 0;
}

int DirectOutput::flush() {
  if (kept_ == 0) return 0;
  if (const int code = put(kept_ - kept_ % kAlignment)) return code;
  return put_cached({buffer_.get(), std::exchange(kept_, 0)});
}

int DirectOutput::put_cached(Bytes bytes) {
  (void)set_direct(false);
  position_ += bytes.size();
  return internal::write_all(fd_, bytes);
}

bool DirectOutput::begin() {
  if (!possible_) return false;
  if (buffer_ == nullptr)
    buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBuffer)));
  if (buffer_ == nullptr || !set_direct(true)) possible_ = false;
  return possible_;
}

int DirectOutput::put(size_t size) {
  if (size == 0) return 0;
  if (const int code = write_direct({buffer_.get(), size})) return code;
  kept_ -= size;
  std::memmove(buffer_.get(), buffer_.get() + size, kept_);
  return 0;
}

int DirectOutput::write_direct(Bytes bytes) {
  if (possible_ && !set_direct(true)) possible_ = false;
  Bytes left = bytes;
  while (!left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written >= 0) {
      left = left.subspan(static_cast<size_t>(written));
    } else if (errno == EINVAL && direct_) {
      // Some file systems say only here that they cannot do it, or that they want larger blocks.
      possible_ = false;
      if (!set_direct(false)) return EINVAL;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  position_ += bytes.size();
  return 0;
}

bool DirectOutput::set_direct(bool direct) {
  if (direct == direct_) return true;
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0) return false;
  if (::fcntl(fd_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) != 0) return false;
  direct_ = direct;
  return true;
}

}  // namespace muster::inline v0_1
