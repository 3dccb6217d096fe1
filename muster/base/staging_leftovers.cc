#include "muster/base/staging_leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

bool claim_staging_file(int fd) {
  // Without locks no files are removed.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat info {};
  return ::fstat(fd, &info) != 0 || info.st_nlink > 0;
}

void remove_staging_leftovers(const std::string& directory, const std::string& prefix) {
  DIR* listing = ::opendir(directory.c_str());
  if (listing == nullptr) return;  // opening the new file says why
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    if (std::string_view(entry->d_name).starts_with(prefix)) names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  for (const std::string& name : names) {
    const std::string path = join_path(directory, name);
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    // The lock is held until the name is gone, so that no process begins to write there meanwhile.
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) (void)::unlink(path.c_str());
    ::close(fd);
  }
}

}  // namespace muster::inline v0_1
