// Base64 with the standard alphabet and padding. Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::inline v0_1::serve::internal {

// Returns the bytes; nothing when `text` is no base64.
std::optional<std::string> decode_base64(std::string_view text);
std::string encode_base64(std::string_view bytes);

}  // namespace muster::inline v0_1::serve::internal
