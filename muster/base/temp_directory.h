// A new empty directory for one test, removed with its content when the object is destroyed. Thread
// safety: construct and destroy on one thread; each object has its own directory.
#pragma once

#include <string>
#include <string_view>

namespace muster::inline v0_1 {

class TempDirectory {
 public:
  // Makes the directory under TMPDIR, or under /tmp when that is unset. Throws Error when it cannot
  // be made.
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Returns the path of `name` inside the directory.
  std::string operator/(std::string_view name) const;

 private:
  std::string path_;
};

}  // namespace muster::inline v0_1
