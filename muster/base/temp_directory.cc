#include "muster/base/temp_directory.h"

#include <cerrno>
#include <cstdlib>

#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

TempDirectory::TempDirectory() {
  const char* root = std::getenv("TMPDIR");
  path_ = join_path(root != nullptr && *root != '\0' ? root : "/tmp", "muster-XXXXXX");
  if (::mkdtemp(path_.data()) == nullptr)
    throw from_errno(errno, "cannot make the directory '" + path_ + "'");
}

TempDirectory::~TempDirectory() { (void)local_file_system().remove_tree(path_); }

std::string TempDirectory::operator/(std::string_view name) const { return join_path(path_, name); }

}  // namespace muster::inline v0_1
