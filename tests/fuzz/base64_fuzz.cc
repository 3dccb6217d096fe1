// Base64 of anything: decoded bytes have the right size, and encoded ones are read again.
#include "muster/base/base64.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() { return {"Zm9vYmFyZg==", "Zm9vYmE=", "Zm9vYmFy", "+/+/"}; }

std::vector<std::string> seed_folders() { return {}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const std::string text(text_of(fuzz::bytes_of_input(data, size)));
  fuzz::require(from_base64(to_base64(text)) == text, "what was written is read");
  if (const auto bytes =
          fuzz::metered(parse_memory_limit(size), [&] { return from_base64(text); })) {
    fuzz::require(bytes->size() <= text.size() / 4 * 3, "four letters are three bytes");
    // Bits that no byte needs may be lost.
    fuzz::require(to_base64(*bytes).size() == text.size(), "as many letters are written");
  }
  return 0;
}
