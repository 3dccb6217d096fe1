#include "muster/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/local_path.h"
#include "muster/base/printable.h"

namespace muster::inline v0_1 {
namespace {

constexpr size_t kMostShown = 4096;  // of a path: the longest that the system takes

// REQUIRES: the mode of no regular file.
const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

Error no_file(mode_t mode, const std::string& path, bool writes) {
  std::string hint = "name a file";
  if (writes) {
    hint += ", or a path that does not exist yet";
  } else {
    hint += S_ISDIR(mode) ? " in it" : "; what comes out of it can be kept in one: cat ... > FILE";
  }
  return invalid_argument("'" + path + "' is " + kind_of(mode) + ", not a file", hint);
}

// 0 for a missing path.
mode_t mode_of(const std::string& local) {
  struct stat status {};
  return ::stat(local.c_str(), &status) == 0 ? status.st_mode : 0;
}

}  // namespace

Error file_error(int error_number, const std::string& what, const std::string& path) {
  std::string hint;
  if (error_number == EROFS) {
    hint = "mount this file system for writing, or choose another directory";
  } else if (error_number == EACCES || error_number == EPERM) {
    hint = "check its permissions and owner, or choose another directory";
  } else if (error_number == ENOENT) {
    const std::string folder = directory_of(path);
    const Result<std::string> local = local_path(folder);
    if (local.ok() && mode_of(local.value()) == 0) {
      hint = "there is no folder '" + printable_beginning(folder) + "': make it, or name another";
    }
  }
  return from_errno(error_number, what + " '" + printable_beginning(path, kMostShown) + "'",
                    std::move(hint));
}

Error no_such_file(const std::string& path) {
  return not_found("there is no file '" + printable_beginning(path) + "': its name is too long");
}

Result<FileDescriptor> open_regular_file(const std::string& local, int flags,
                                         const std::string& path) {
  int fd;
  do {
    fd = ::open(local.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  } while (fd < 0 && errno == EINTR);
  const int code = errno;
  FileDescriptor file(fd);
  struct stat status {};
  // A socket, and a pipe without a reader, cannot be opened, and the system does not say why.
  const bool seen = file.is_open()
                        ? ::fstat(fd, &status) == 0
                        : (code == ENXIO || code == EISDIR) && ::stat(local.c_str(), &status) == 0;
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (seen && !S_ISREG(status.st_mode)) return no_file(status.st_mode, path, writes);
  if (file.is_open()) return file;
  // Under a name that is too long there can be nothing.
  if (code == ENAMETOOLONG && (flags & O_CREAT) == 0) return no_such_file(path);
  return file_error(code, writes ? "cannot open for writing" : "cannot open", path);
}

Status check_is_no_special_file(const std::string& local, const std::string& path) {
  const mode_t mode = mode_of(local);
  return mode == 0 || S_ISREG(mode) || S_ISDIR(mode) ? Status() : no_file(mode, path, true);
}

Status check_is_no_device(const std::string& local, const std::string& path) {
  const mode_t mode = mode_of(local);
  if (S_ISCHR(mode) || S_ISBLK(mode)) return no_file(mode, path, true);
  char target[6];  // of a link; its beginning does
  const ssize_t count = ::readlink(local.c_str(), target, sizeof target);
  if (count > 0 && std::string_view(target, static_cast<size_t>(count)) == "/proc/") {
    return invalid_argument("'" + path + "' is a link to what a process has open, not a file",
                            "name the file itself");
  }
  return {};
}

}  // namespace muster::inline v0_1
