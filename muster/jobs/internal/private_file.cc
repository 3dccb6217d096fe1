#include "muster/jobs/internal/private_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs::internal {

PrivateFile::PrivateFile(std::string path, std::string_view text) : path_(std::move(path)) {
  unlink(path_.c_str());  // left by a killed process, whatever its mode
  const int descriptor = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool written = descriptor >= 0;
  while (written && !text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    written = count > 0;
    if (written) text.remove_prefix(static_cast<size_t>(count));
  }
  const int number = errno;
  if (descriptor >= 0) close(descriptor);
  if (written) return;
  unlink(path_.c_str());
  throw from_errno(number, "cannot write " + path_, "free space on its disk");
}

PrivateFile::~PrivateFile() { unlink(path_.c_str()); }

}  // namespace muster::inline v0_1::jobs::internal
