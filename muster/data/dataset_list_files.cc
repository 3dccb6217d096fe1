#include <set>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/path_list.h"
#include "muster/files/file_systems.h"
#include "muster/files/glob.h"

namespace muster::inline v0_1 {

Dataset Dataset::list_files(const std::vector<std::string>& patterns,
                            const ListFilesOptions& options) {
  if (patterns.empty()) throw invalid_argument("list_files() needs a pattern, got none");
  std::set<std::string> found;
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) throw invalid_argument("list_files(): a pattern is empty");
    std::set<std::string> matched;
    for (const FoundPath& each : find_paths(file_systems(), pattern)) {
      if (!each.info.is_directory) matched.insert(each.path);
    }
    if (matched.empty()) {
      const Error missing = nothing_matches(file_systems(), pattern);
      throw not_found(fmt::format("no file matches {}", pattern), missing.hint());
    }
    found.merge(matched);
  }
  const auto n = static_cast<int64_t>(found.size());
  Dataset files = from_source(std::make_shared<const data::internal::PathList>(
      std::vector<std::string>(found.begin(), found.end())));
  return options.shuffle ? files.shuffle(n, {.seed = options.seed}) : files;
}

}  // namespace muster::inline v0_1
