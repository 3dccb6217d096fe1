// Any bytes as answers of stores and as names of users: the parsers end, and their results make
// sense.
#include <cmath>

#include "muster/base/outside_name.h"
#include "muster/base/uri.h"
#include "muster/stores/internal/aws_profile.h"
#include "muster/stores/internal/http_responses.h"
#include "muster/stores/internal/object_name.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

std::vector<std::string> muster::fuzz::seeds() {
  return {"bytes 5-9/100",
          "bytes */0",
          "2026-01-31T12:00:00.5Z",
          "Sun, 06 Nov 1994 08:49:37 GMT",
          "a/../b",
          "http://host/a",
          "s3://bucket/a//b c/\xc3\xbc%2F/",
          "[default]\nregion = eu\ns3 =\n  region = no\n[profile work]\naws_access_key_id=K=\n"};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;                    // NOLINT(google-build-using-namespace)
  using namespace muster::stores::internal;  // NOLINT(google-build-using-namespace)
  const std::string text(text_of(fuzz::bytes_of_input(data, size)));
  fuzz::metered(parse_memory_limit(size), [&] {
    (void)parse_content_range(text);
    (void)parse_object_name("s3", text);
    (void)parse_aws_profiles(text);
  });
  if (const auto range = parse_content_range(text)) {
    fuzz::require(range->end >= range->begin, "a range does not end before it begins");
  }
  (void)parse_http_date(text);
  if (const auto time = parse_iso_time(text)) {
    fuzz::require(std::abs(*time) < 1e12, "a year has four digits");
  }
  if (const auto name = parse_object_name("s3", text); name.ok()) {
    const auto again = parse_object_name("s3", name.value().uri());
    fuzz::require(again.ok() && again.value().uri() == name.value().uri(),
                  "a name is read as it is written");
    fuzz::require(!name.value().key.ends_with('/'), "a file is not a marker of a folder");
    fuzz::require(text.find(name.value().key) != std::string::npos, "a name is kept as it is");
  }
  if (fault_of_path(text).empty()) {
    fuzz::require(("/" + text + "/").find("/../") == std::string::npos && root_size(text) == 0 &&
                      text.find('\0') == std::string::npos,
                  "a name from outside stays in its folder");
  }
  for (const auto& [name, settings] : parse_aws_profiles(text)) {
    fuzz::require(!settings.contains(""), "a setting has a name");
  }
  return 0;
}
