// Texts as the tokens of a model that reads bytes.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::applications {

// Every byte of a text in UTF-8 is a token, 0 ... 255. A model may have more, for marks such as the
// end of a text.
class MUSTER_EXPORT ByteTokenizer {
 public:
  static constexpr int64_t kVocabularySize = 256;

  // Gives the bytes of the text, whatever they are.
  std::vector<int64_t> encode(std::string_view text) const;

  // Gives the text of the tokens, which is UTF-8 in any case: each longest beginning of a character
  // that does not go on, and each byte that begins none, becomes U+FFFD, as the Unicode standard
  // advises. Tokens of 256 and above are marks, and give nothing. Throws InvalidArgument for one
  // below 0, with its place.
  std::string decode(const std::vector<int64_t>& tokens) const;
};

}  // namespace muster::inline v0_1::applications
