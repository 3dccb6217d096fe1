// Muster's entries about a checkpoint in the header of its safetensors file, and the digests by
// which a changed byte of the header is found. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/formats/safetensors.h"

namespace muster::inline v0_1::formats {

// Keys of the metadata: the JSON text about the checkpoint, and the digest of that text and of the
// names, dtypes and shapes of the tensors that lie in the file itself.
inline const std::string kAboutKey = "muster";
inline const std::string kHeaderDigestKey = "muster_digest";

// The line that the digest has of a tensor: "<name> <dtype> [2, 3]".
std::string layout_line(std::string_view name, std::string_view dtype,
                        const std::vector<int64_t>& shape);
// "crc32c:0123abcd" of the text about the checkpoint and of the layout lines, by name.
std::string header_digest(const std::string& about,
                          const std::map<std::string, std::string>& layout);

// Whether the header of `file`, which errors call `path`, is unchanged since it was written.
// Returns Corrupt if it is not, or if one of both keys is missing.
Status check_header(const SafetensorsReader& file, const std::string& path);
// Whether the table of its parts has the digest `expected`, which is "parts" in the text about the
// checkpoint; "" if it has no parts. Returns Corrupt if the digest differs.
Status check_parts_table(const SafetensorsReader& file, const std::string& expected,
                         const std::string& path);

}  // namespace muster::inline v0_1::formats
