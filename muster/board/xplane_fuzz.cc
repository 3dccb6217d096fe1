// timeline_of_xspace() of anything: its spans belong to its tracks and do not end before they
// begin, and it becomes JSON.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/board/xplane.h"
#include "tests/fuzz/target.h"

using muster::fuzz::require;

std::vector<std::string> muster::fuzz::seeds() {
  // A plane "/host" with a line "python" at 7 ns, and an event "Step" of 2 µs.
  return {
      std::string("\x0a\x32\x12\x05/host\x22\x0c\x08\x01\x12\x08\x08\x01\x12\x04Step"
                  "\x1a\x1b\x12\x06python\x18\x07\x22\x0f\x08\x01\x10\xc0\x84\x3d\x18\x80\x89"
                  "\x7a\x22\x04\x08\x01\x18\x02",
                  52)};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  formats::Timeline timeline;
  try {
    timeline = board::timeline_of_xspace(bytes, 1000);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kInvalidArgument,
            "the error is of the bytes");
    return 0;
  }
  for (const formats::TimelineSpan& span : timeline.spans) {
    require(static_cast<size_t>(span.track) < timeline.tracks.size(), "the track is there");
    require(span.begin <= span.end, "it ends after its begin");
  }
  require(nlohmann::json::accept(formats::trace_event_json(timeline)), "it becomes JSON");
  return 0;
}
