// Base64 with the standard alphabet and padding (RFC 4648). Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns the text of these bytes; it may have 2^31 characters.
MUSTER_PART_EXPORT std::string to_base64(std::string_view bytes);
// Returns the bytes; nothing when `text` is not base64, or has more than 2^31 characters.
MUSTER_PART_EXPORT std::optional<std::string> from_base64(std::string_view text);

}  // namespace muster::inline v0_1
