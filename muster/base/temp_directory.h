// A new empty directory for one test, removed with all it holds when the object goes.
// Thread safety: construct and destroy on one thread; each object has its own directory.
#pragma once

#include <string>
#include <string_view>

namespace muster::inline v0_1 {

class TempDirectory {
 public:
  // Under TMPDIR, or /tmp. Throws Error when it cannot be made.
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  // The path of `name` inside.
  std::string operator/(std::string_view name) const;

 private:
  std::string path_;
};

}  // namespace muster::inline v0_1
