#include "muster/board/profiles.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/small_file.h"
#include "muster/base/strings.h"
#include "muster/board/xplane.h"
#include "muster/formats/input_stream.h"
#include "muster/formats/timeline.h"

namespace muster::inline v0_1::board {

bool is_profile(std::string_view name) {
  if (name.ends_with(".xplane.pb") || name.ends_with(".trace.json") ||
      name.ends_with(".trace.json.gz"))
    return true;
  return name.starts_with("timeline-") && name.ends_with(".json");
}

std::string profile_text(FileSystem& files, const std::string& path, uint64_t most) {
  if (path.ends_with(".xplane.pb")) {
    const std::string bytes = read_small_file(files, path, most).value();
    return formats::trace_event_json(timeline_of_xspace(bytes_of(bytes)));
  }
  constexpr size_t kAtOnce = 256 << 10;
  const std::unique_ptr<formats::InputStream> stream =
      formats::InputStream::open(files, path).value();
  std::string text;
  while (true) {
    const Bytes bytes = stream->peek(kAtOnce).value();
    if (bytes.empty()) return text;
    // A small packed file may unpack to any size.
    if (text.size() + bytes.size() > most) {
      throw invalid_argument(
          fmt::format("the profile {} has more than {}", path, human_bytes(most)),
          "open it in https://ui.perfetto.dev, or record fewer steps");
    }
    const size_t count = bytes.size();
    text.append(reinterpret_cast<const char*>(bytes.data()), count);
    stream->consume(count);
  }
}

nlohmann::json profiles_json(FileSystem& files, const std::vector<std::string>& paths) {
  using nlohmann::json;
  json all = json::array();
  for (const std::string& path : paths) {
    const Result<FileInfo> info = files.info(path);
    all.push_back({{"path", path},
                   {"bytes", info.ok() ? json(info.value().size) : json()},
                   {"written", info.ok() ? json(info.value().modified_seconds) : json()}});
  }
  return all;
}

}  // namespace muster::inline v0_1::board
