#include "muster/formats/checkpoint_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"

namespace muster::inline v0_1::formats {
namespace {

std::string crc_text(uint32_t crc) { return fmt::format("crc32c:{:08x}", crc); }

Status compare(const std::string& what, const std::string& actual, const std::string& expected) {
  if (actual == expected) return {};
  return corrupt(
      fmt::format("{} is damaged: its digest is {}, expected {}", what, actual, expected));
}

}  // namespace

std::string layout_line(std::string_view name, std::string_view dtype,
                        const std::vector<int64_t>& shape) {
  return fmt::format("{} {} [{}]\n", name, dtype, fmt::join(shape, ", "));
}

std::string header_digest(const std::string& about,
                          const std::map<std::string, std::string>& layout) {
  uint32_t crc = crc32c(bytes_of(about + "\n"));
  for (const auto& [name, line] : layout) crc = extend_crc32c(crc, bytes_of(line));
  return crc_text(crc);
}

Status check_header(const SafetensorsReader& file, const std::string& path) {
  const SafetensorsMetadata& metadata = file.metadata();
  const auto about = metadata.find(kAboutKey), digest = metadata.find(kHeaderDigestKey);
  if (about == metadata.end() || digest == metadata.end()) {
    return corrupt(fmt::format(
        "'{}' has no Muster metadata: its header is damaged, or another program wrote it", path));
  }
  std::map<std::string, std::string> layout;
  // Tensors in parts are in a table of their own.
  for (const TensorEntry& entry : file.tensors()) {
    if (!file.parts().tensors.contains(entry.name))
      layout[entry.name] = layout_line(entry.name, entry.dtype, entry.shape);
  }
  return compare(fmt::format("the header of '{}'", path), header_digest(about->second, layout),
                 digest->second);
}

Status check_parts_table(const SafetensorsReader& file, const std::string& expected,
                         const std::string& path) {
  const auto table = file.metadata().find(std::string(kSafetensorsParts));
  return compare(fmt::format("the table of parts of '{}'", path),
                 table == file.metadata().end() ? "" : crc_text(crc32c(bytes_of(table->second))),
                 expected);
}

}  // namespace muster::inline v0_1::formats
