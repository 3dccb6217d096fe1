#include "muster/base/missing_file.h"

#include <algorithm>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

std::string what_is_there(FileSystem& files, const std::string& path) {
  constexpr size_t kNamed = 5;
  const std::string folder = directory_of(path);
  Result<std::vector<std::string>> names = files.list_directory(folder);
  if (!names.ok()) return "there is no folder '" + folder + "'";
  if (names.value().empty()) return "the folder '" + folder + "' is empty";
  std::sort(names.value().begin(), names.value().end());
  return "the folder '" + folder + "' holds " + join_quoted(names.value(), kNamed);
}

}  // namespace

Result<std::unique_ptr<FileReader>> open_named_file(FileSystem& files, const std::string& path) {
  Result<std::unique_ptr<FileReader>> reader = files.open_reader(path);
  if (reader.ok() || reader.error().kind() != ErrorKind::kNotFound) return reader;
  return not_found(reader.error().message(), what_is_there(files, path));
}

}  // namespace muster::inline v0_1
