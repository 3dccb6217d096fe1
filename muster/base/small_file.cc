#include "muster/base/small_file.h"

#include <memory>
#include <span>

#include "muster/base/strings.h"

namespace muster::inline v0_1 {

Result<std::string> read_small_file(FileSystem& files, const std::string& path, uint64_t most) {
  Result<std::unique_ptr<FileReader>> reader = files.open_reader(path);
  if (!reader.ok()) return reader.error();
  const Result<uint64_t> size = reader.value()->size();
  if (!size.ok()) return size.error();
  if (size.value() > most) {
    return corrupt("'" + path + "' has " + human_bytes(size.value()) + ", where at most " +
                       human_bytes(most) + " are expected",
                   "something else has written to it: look at its beginning, and move it away");
  }
  std::string content(size.value(), '\0');
  const Result<size_t> got = reader.value()->read_at(0, std::as_writable_bytes(std::span(content)));
  if (!got.ok()) return got.error();
  content.resize(got.value());
  return content;
}

}  // namespace muster::inline v0_1
