#include "muster/jobs/job_dir.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/local_path.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1::jobs {

void check_slashes(const std::string& what, const std::string& path) {
  const size_t colon = path.find(':');
  if (colon == std::string::npos || path.substr(colon).starts_with("://")) return;
  const std::string scheme = path.substr(0, colon);
  const std::vector<std::string> schemes = path_schemes();
  if (std::ranges::find(schemes, scheme) == schemes.end()) return;
  const std::string rest =
      path.substr(std::min(path.find_first_not_of('/', colon + 1), path.size()));
  throw invalid_argument(
      fmt::format("{} is '{}', without two slashes after '{}:'", what, path, scheme),
      fmt::format("write {}{}{}, or ./{} for a folder of this machine", scheme,
                  scheme == "file" ? ":///" : "://", rest, path));
}

void check_place(const std::string& job_dir, bool writes_here) {
  if (job_dir.empty()) return;
  const auto local = local_path(job_dir);
  if (!local.ok()) return;
  const char* const kFix = "give another --job-dir, or mend that one";
  // A missing folder is made in the nearest existing one above it.
  std::filesystem::path place = std::filesystem::absolute(local.value()).lexically_normal();
  struct stat info {};
  while (stat(place.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
         place.has_relative_path()) {
    place = place.parent_path();
  }
  if (stat(place.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    throw invalid_argument(
        fmt::format("the job directory {} cannot be: {} is a file", job_dir, place.string()), kFix);
  }
  if (!writes_here || access(place.c_str(), W_OK | X_OK) == 0) return;
  throw invalid_argument(fmt::format("the job directory {} cannot be written: {}: {}", job_dir,
                                     place.string(), std::strerror(errno)),
                         kFix);
}

}  // namespace muster::inline v0_1::jobs
