// A file that may hold a secret, for a tool to read: only this user can, and it is removed again.
// Thread safety: one thread.
#pragma once

#include <string>
#include <string_view>

namespace muster::inline v0_1::jobs::internal {

class PrivateFile {
 public:
  // Writes the file. Throws the file system's errors.
  PrivateFile(std::string path, std::string_view text);
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace muster::inline v0_1::jobs::internal
