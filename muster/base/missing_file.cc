#include "muster/base/missing_file.h"

#include <algorithm>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1 {
namespace {

// "; did you mean 'data'?", if a name of `names` is near that of `path`. Any letter is near any
// other, so short names are not compared.
std::string meant(const std::string& path, const std::vector<std::string>& names) {
  constexpr size_t kShort = 3;
  const std::string name(base_name(path));
  const auto near = name.size() < kShort ? std::nullopt : nearest(name, names);
  return near ? "; did you mean '" + *near + "'?" : "";
}

}  // namespace

std::string what_stands_beside(FileSystem& files, const std::string& path) {
  // A web server lists nothing.
  if (const std::string_view scheme = scheme_of(path); scheme == "http" || scheme == "https")
    return "check the address";
  constexpr size_t kNamed = 5;
  const std::string folder = directory_of(path);
  Result<std::vector<std::string>> names = files.list_directory(folder);
  if (!names.ok()) {
    const std::string above = directory_of(folder);
    // For a bucket, the store's own message says most.
    if (above == folder || root_size(folder) == folder.size() ||
        names.error().kind() != ErrorKind::kNotFound) {
      return names.error().message();
    }
    const auto beside = files.list_directory(above);
    return "there is no folder '" + folder + "'" +
           (beside.ok() ? meant(folder, beside.value()) : "");
  }
  if (names.value().empty()) return "the folder '" + folder + "' is empty";
  std::sort(names.value().begin(), names.value().end());
  return "the folder '" + folder + "' holds " + join_quoted(names.value(), kNamed) +
         meant(path, names.value());
}

Result<std::unique_ptr<FileReader>> open_named_file(FileSystem& files, const std::string& path) {
  Result<std::unique_ptr<FileReader>> reader = files.open_reader(path);
  if (reader.ok() || reader.error().kind() != ErrorKind::kNotFound) return reader;
  return not_found(reader.error().message(), what_stands_beside(files, path));
}

}  // namespace muster::inline v0_1
