#include "muster/formats/file_digests.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/outside_name.h"
#include "muster/base/printable.h"

namespace muster::inline v0_1::formats {
namespace {

using nlohmann::json;

constexpr const char* kFiles = "files";
constexpr const char* kSeal = "seal";
// In a value of the text these quotes would have a backslash before them.
constexpr std::string_view kSealBegins = "\"seal\": \"crc32c:";
constexpr size_t kSealDigits = 8;
constexpr std::string_view kNoSeal = "00000000";

std::string text_of_digest(uint32_t crc) { return fmt::format("crc32c:{:08x}", crc); }

// What is wrong with the name of a file in the folder, or in a folder of it; "" if nothing is.
std::string fault_of_path(std::string_view path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (std::string fault = fault_of_name(path.substr(at, end - at)); !fault.empty()) return fault;
    at = end + 1;
  }
  return "";
}

// The place of the digits of the seal; nothing if there is none.
std::optional<size_t> seal_of(std::string_view text) {
  const size_t at = text.find(kSealBegins);
  if (at == std::string_view::npos || text.size() - at < kSealBegins.size() + kSealDigits)
    return std::nullopt;
  return at + kSealBegins.size();
}

std::string digits_for(std::string text, size_t place) {
  text.replace(place, kSealDigits, kNoSeal);
  return fmt::format("{:08x}", crc32c(bytes_of(text)));
}

Error damaged(const std::string& path, const FileDigest& found, const FileDigest& expected) {
  return corrupt(fmt::format("'{}' is damaged: it has {} bytes with the digest {}, expected {} "
                             "with {}",
                             path, found.bytes, found.digest, expected.bytes, expected.digest),
                 "copy the folder again, or export the model again");
}

}  // namespace

FileDigest digest_of(Bytes bytes) { return {bytes.size(), text_of_digest(crc32c(bytes))}; }

Result<FileDigest> digest_of_file(FileSystem& files, const std::string& path) {
  constexpr size_t kPiece = 1 << 20;
  Result<std::unique_ptr<FileReader>> reader = files.open_reader(path);
  if (!reader.ok()) return reader.error();
  std::vector<std::byte> piece(kPiece);
  FileDigest digest;
  uint32_t crc = 0;
  while (true) {
    const Result<size_t> count = reader.value()->read_at(digest.bytes, piece);
    if (!count.ok()) return count.error();
    crc = extend_crc32c(crc, Bytes(piece).first(count.value()));
    digest.bytes += count.value();
    if (count.value() < kPiece) break;
  }
  digest.digest = text_of_digest(crc);
  return digest;
}

std::string sealed_text(const json& object, const FileDigests& files) {
  json all = object;
  all[kFiles] = json::object();
  for (const auto& [name, file] : files)
    all[kFiles][name] = {{"bytes", file.bytes}, {"digest", file.digest}};
  all[kSeal] = "crc32c:" + std::string(kNoSeal);
  std::string text = all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  const size_t place = seal_of(text).value();
  return text.replace(place, kSealDigits, digits_for(text, place));
}

Result<std::optional<FileDigests>> sealed_digests(std::string_view text, const json& parsed,
                                                  const std::string& what) {
  const std::optional<size_t> seal = seal_of(text);
  const bool has_files = parsed.is_object() && parsed.contains(kFiles);
  if (!seal && !has_files) return std::optional<FileDigests>();
  const auto refused = [&](const std::string& why) {
    return corrupt(fmt::format("'{}' is damaged: {}", what, why),
                   "copy the folder again, or export the model again");
  };
  if (!seal) return refused("its seal is missing");
  const std::string expected = digits_for(std::string(text), *seal);
  if (const std::string_view digits = text.substr(*seal, kSealDigits); digits != expected) {
    return refused(fmt::format("its seal is {}, the text's is {}", printable(digits), expected));
  }
  try {
    FileDigests digests;
    for (const auto& [name, file] : parsed.at(kFiles).items()) {
      if (const std::string fault = fault_of_path(name); !fault.empty()) {
        return refused(
            fmt::format("the name of a file, '{}', {}", printable_beginning(name), fault));
      }
      digests[name] = {file.at("bytes").get<uint64_t>(), file.at("digest").get<std::string>()};
    }
    return std::optional(std::move(digests));
  } catch (const json::exception& error) {
    return refused(error.what());
  }
}

Status check_digest(FileSystem& files, const std::string& path, const FileDigest& expected) {
  const Result<FileDigest> found = digest_of_file(files, path);
  if (!found.ok() && found.error().kind() == ErrorKind::kNotFound) {
    return corrupt(fmt::format("'{}' is missing", path),
                   "copy the folder again, or export the model again");
  }
  if (!found.ok()) return found.error();
  if (found.value() != expected) return damaged(path, found.value(), expected);
  return {};
}

Status check_digest(Bytes bytes, const std::string& path, const FileDigest& expected) {
  const FileDigest found = digest_of(bytes);
  if (found != expected) return damaged(path, found, expected);
  return {};
}

}  // namespace muster::inline v0_1::formats
