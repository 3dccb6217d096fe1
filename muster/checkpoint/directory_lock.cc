#include "muster/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1 {
namespace {

using Clock = std::chrono::steady_clock;

std::string holder(int fd) {
  char text[256];
  const ssize_t count = pread(fd, text, sizeof text, 0);
  return count > 0 ? std::string(text, static_cast<size_t>(count)) : "another program";
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory, std::chrono::milliseconds wait,
                             const std::function<bool()>& cancelled) {
  const std::string path = directory + "/.lock";
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) throw from_errno(errno, "cannot open " + path);
  const auto deadline = Clock::now() + wait;
  bool told = false;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int number = errno;
    if (number == EINTR) continue;
    if (number != EWOULDBLOCK) {
      log::debug(fmt::format("{} cannot be locked: two programs in it are not told apart", path));
      return;
    }
    if (Clock::now() >= deadline || (cancelled && cancelled())) {
      const std::string who = holder(fd_);
      close(fd_);
      throw Error(ErrorKind::kUnavailable,
                  fmt::format("model_dir '{}' is in use by {}", directory, who),
                  "wait for it to end, or give this run a model_dir of its own");
    }
    if (!told) log::info(fmt::format("waiting for {} to leave {}", holder(fd_), directory));
    told = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  const std::string who = fmt::format("process {} on {}", getpid(), host);
  // Only for the message of whoever comes second.
  if (ftruncate(fd_, 0) == 0) {
    [[maybe_unused]] const ssize_t written = pwrite(fd_, who.data(), who.size(), 0);
  }
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace muster::inline v0_1
