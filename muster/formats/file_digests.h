// Digests of files that belong together in a folder, kept in a JSON text that is one of them:
//
//   "files": {"model.pt": {"bytes": 1234, "digest": "crc32c:0123abcd"}, ...},
//   "seal": "crc32c:89ab4567"
//
// The seal is the digest of the whole text, with the eight digits of the seal written as zeros. A
// byte that changed in any of the files is found; a program that can write all of them can make new
// digests. Thread safety: pure functions of the files.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// What is known of the bytes of a file.
struct FileDigest {
  uint64_t bytes = 0;
  std::string digest{};  // "crc32c:0123abcd"

  bool operator==(const FileDigest&) const = default;
};

// By the names of the files in their folder: "model.pt", "variables/variables.index".
using FileDigests = std::map<std::string, FileDigest>;

// The digest of a file with these bytes.
FileDigest digest_of(Bytes bytes);
// Reads the file piece by piece. Returns what reading returns.
Result<FileDigest> digest_of_file(FileSystem& files, const std::string& path);

// The text of `object`, which has neither key, with the digests and the seal.
std::string sealed_text(const nlohmann::json& object, const FileDigests& files);
// The digests in a text of which `parsed` is the value; nothing where it has neither digests nor a
// seal. Returns Corrupt, naming the text as `what`, where one of both is missing, the seal is not
// that of the text, or a name is not that of a file in the folder.
Result<std::optional<FileDigests>> sealed_digests(std::string_view text,
                                                  const nlohmann::json& parsed,
                                                  const std::string& what);

// Whether the file has the digest that it should. Returns Corrupt, naming the file, where it has
// another one, or is missing; else what reading returns.
Status check_digest(FileSystem& files, const std::string& path, const FileDigest& expected);
// The same of a file that was read already.
Status check_digest(Bytes bytes, const std::string& path, const FileDigest& expected);

}  // namespace muster::inline v0_1::formats
