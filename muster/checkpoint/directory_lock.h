// The right to write a model_dir: one program at a time. Thread safety: a value of one thread.
//
// It is a lock of the operating system on the file ".lock" in the directory, so it ends with the
// process that holds it, however that ends. File systems without locks (some network ones) give
// none: then two programs are not told apart, and one debug line says so.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

class MUSTER_PART_EXPORT DirectoryLock {
 public:
  // `directory`, a path or a file:// URI, must be there. Waits up to `wait` for another program to
  // leave (one that was just stopped may still be ending); for one of another machine two
  // minutes, unless `wait` is 0, since the lock of a lost machine goes by itself. Throws
  // InvalidArgument naming the process and machine that hold it, or when ".lock" is not a plain
  // file, and for a URI of another scheme; Cancelled when `cancelled` becomes true.
  explicit DirectoryLock(const std::string& directory,
                         std::chrono::milliseconds wait = std::chrono::seconds(10),
                         const std::function<bool()>& cancelled = {});
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Throws Unavailable if the directory was removed or replaced since: another process may have
  // locked the new one.
  void check() const;

 private:
  std::string directory_;  // as it was given
  std::string path_;       // of the lock
  int fd_ = -1;
};

}  // namespace muster::inline v0_1
