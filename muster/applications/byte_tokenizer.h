// Converts texts to byte tokens, and back.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::applications {

// Every byte of a UTF-8 text is a token, 0 ... 255. A model may have more tokens, for marks such as
// the end of a text.
class MUSTER_EXPORT ByteTokenizer {
 public:
  static constexpr int64_t kVocabularySize = 256;

  // Returns the bytes of the text; any bytes are allowed.
  std::vector<int64_t> encode(std::string_view text) const;

  // Returns the text of the tokens as valid UTF-8: each longest incomplete character, and each byte
  // that begins no character, becomes U+FFFD, as the Unicode standard recommends. Tokens of 256 and
  // above are marks and give no text. Throws InvalidArgument for a token below 0, with its
  // position.
  std::string decode(const std::vector<int64_t>& tokens) const;
};

}  // namespace muster::inline v0_1::applications
