// parse_json() of anything: an accepted text is written and read again.
#include <nlohmann/json.hpp>

#include "muster/base/json.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  return {R"({"a": [1, -2.5e3, "x\u00e9", {"b": null}], "c": true})", R"([[], {}, "", -0, 1e999])"};
}

// Texts that take the most memory for their letters; and lists of objects, which took time for each
// pair.
std::vector<std::string> attacks() {
  std::string objects = "[", empties = "[", keys = "{", lists = "[";
  for (int i = 0; i < 40'000; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    objects += comma + "{}";
    empties += comma + "\"\"";
    lists += comma + "[[]]";
    keys += comma + "\"" + std::to_string(i) + "\":0";
  }
  return {objects + "]", empties + "]", lists + "]", keys + "}", std::string(100'000, '[')};
}

std::vector<std::string> seed_folders() { return {}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const std::string_view text = text_of(fuzz::bytes_of_input(data, size));
  const Result<nlohmann::json> value =
      fuzz::metered(parse_memory_limit(size), [&] { return parse_json(text, "input"); });
  if (!value.ok()) return 0;
  const Result<nlohmann::json> again = parse_json(value.value().dump(), "again");
  fuzz::require(again.ok() && again.value() == value.value(), "what is written is what was read");
  return 0;
}
