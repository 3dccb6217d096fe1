#include "muster/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/local_path.h"
#include "muster/base/log.h"

namespace muster::inline v0_1 {
namespace {

using SteadyClock = std::chrono::steady_clock;

// The lock of a lost machine, or of a pod that saves before it ends, disappears within this time,
// and this process cannot see whether it will.
constexpr std::chrono::seconds kElsewhere{120};

std::string own_host() {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return host;
}

std::string holder(int fd) {
  char text[256];
  const ssize_t count = pread(fd, text, sizeof text, 0);
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "another program";
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory, std::chrono::milliseconds wait,
                             const std::function<bool()>& cancelled)
    : directory_(directory), path_(join_path(local_path(directory).value(), ".lock")) {
  const std::string& path = path_;
  const auto refuse = [&](const char* why) {
    if (fd_ >= 0) close(fd_);
    throw invalid_argument(fmt::format("cannot lock {}: it is {}", path, why),
                           "remove it, or pass another model_dir");
  };
  // Through a link, a foreign file would be written.
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd_ < 0 && errno == ELOOP) refuse("a symbolic link");
  if (fd_ < 0 && errno == EISDIR) refuse("a directory");
  if (fd_ < 0) throw from_errno(errno, "cannot open " + path);
  struct stat info {};
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) refuse("no plain file");
  const auto begun = SteadyClock::now();
  const std::string here = " on " + own_host();
  bool told = false;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int number = errno;
    if (number == EINTR) continue;
    if (number != EWOULDBLOCK) {
      log::debug(fmt::format("{} cannot be locked: two programs in it are not told apart", path));
      return;
    }
    const bool stop = cancelled && cancelled();
    const std::string who = holder(fd_);
    const bool elsewhere = who.starts_with("process ") && !who.ends_with(here);
    const std::chrono::milliseconds patience =
        elsewhere && wait.count() > 0 ? std::max<std::chrono::milliseconds>(wait, kElsewhere)
                                      : wait;
    if (stop || SteadyClock::now() >= begun + patience) {
      close(fd_);
      if (stop) {
        throw Error(ErrorKind::kCancelled,
                    fmt::format("waiting for {} to leave model_dir '{}'", who, directory));
      }
      // To start this program again would only wait once more: the user who started two must
      // decide.
      throw invalid_argument(fmt::format("model_dir '{}' is in use by {}", directory, who),
                             "wait for it to end, or give this run a model_dir of its own");
    }
    if (!told) log::info(fmt::format("waiting for {} to leave {}", who, directory));
    told = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string who = fmt::format("process {}{}", getpid(), here);
  // Only for the error message of a second program.
  if (ftruncate(fd_, 0) == 0) {
    [[maybe_unused]] const ssize_t written = pwrite(fd_, who.data(), who.size(), 0);
  }
}

void DirectoryLock::check() const {
  struct stat ours {};
  struct stat there {};
  if (fstat(fd_, &ours) == 0 && stat(path_.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
      ours.st_ino == there.st_ino) {
    return;
  }
  throw Error(ErrorKind::kUnavailable,
              fmt::format("model_dir '{}' was removed or replaced while it was in use", directory_),
              "another program may be writing there now: start again, in a model_dir that stays");
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace muster::inline v0_1
