#include "tests/support/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::testing {
namespace {

// Held by one thread of one process at a time.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& directory)
      : fd_(::open((directory + "/.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {
    if (fd_ < 0 || ::flock(fd_, LOCK_EX) != 0) {
      throw from_errno(errno, "cannot lock the store in " + directory);
    }
  }
  ~DirectoryLock() { ::close(fd_); }

 private:
  const int fd_;
};

}  // namespace

FileStore::FileStore(std::string directory) : directory_(std::move(directory)) {}

std::string FileStore::path(const std::string& key) const {
  std::string name = directory_ + "/key.";
  for (const unsigned char c : key) {
    if (std::isalnum(c) != 0) {
      name += static_cast<char>(c);
    } else {
      char code[4];
      std::snprintf(code, sizeof(code), "%%%02x", c);
      name += code;
    }
  }
  return name;
}

void FileStore::set(const std::string& key, const std::string& value) {
  static std::atomic<int> counter = 0;
  const std::string aside =
      directory_ + "/.new." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  {
    std::ofstream file(aside, std::ios::binary);
    file << value;
    if (!file.flush()) throw from_errno(errno, "cannot write " + aside);
  }
  if (std::rename(aside.c_str(), path(key).c_str()) != 0) {
    throw from_errno(errno, "cannot rename " + aside);
  }
}

std::string FileStore::get(const std::string& key, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (std::ifstream file(path(key), std::ios::binary); file) {
      return {std::istreambuf_iterator<char>(file), {}};
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kTimeout, "key '" + key + "' was not set within " +
                                           std::to_string(timeout.count()) + " ms");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int64_t FileStore::add(const std::string& key, int64_t amount) {
  const DirectoryLock lock(directory_);
  int64_t value = 0;
  if (check(key)) {
    const std::string text = get(key, std::chrono::milliseconds(0));
    const auto number = parse_int(text);
    if (!number) {
      throw invalid_argument("key '" + key + "' holds '" + text + "', which is not a counter");
    }
    value = *number;
  }
  set(key, std::to_string(value + amount));
  return value + amount;
}

bool FileStore::check(const std::string& key) { return ::access(path(key).c_str(), F_OK) == 0; }

bool FileStore::erase(const std::string& key) { return ::unlink(path(key).c_str()) == 0; }

}  // namespace muster::inline v0_1::testing
