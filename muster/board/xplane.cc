#include "muster/board/xplane.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::board {
namespace {

using formats::Timeline;
using formats::internal::Message;

enum class Space { kPlanes = 1 };
enum class Plane { kName = 2, kLines = 3, kEventMetadata = 4 };
enum class Entry { kKey = 1, kValue = 2 };
enum class Metadata { kName = 2, kDisplayName = 4 };
enum class Line { kName = 2, kTimestamp = 3, kEvents = 4, kDisplayName = 11 };
enum class Event { kMetadata = 1, kOffset = 2, kDuration = 3 };

// Sums of a few of them stay in range, whatever a file says.
int64_t in_range(int64_t time) { return std::clamp<int64_t>(time, 0, int64_t{1} << 60); }

std::string name_of(Bytes bytes) {
  std::string name, shown;
  for (Message<Metadata> metadata(bytes); metadata.next();) {
    metadata.read(Metadata::kName, &name);
    metadata.read(Metadata::kDisplayName, &shown);
  }
  return shown.empty() ? name : shown;
}

class Reader {
 public:
  explicit Reader(size_t most) : most_(most) {}

  void read_plane(Bytes bytes) {
    std::string name;
    std::unordered_map<int64_t, std::string> names;
    std::vector<Bytes> lines;
    for (Message<Plane> plane(bytes); plane.next();) {
      plane.read(Plane::kName, &name);
      if (Bytes part; plane.read(Plane::kLines, &part)) lines.push_back(part);
      if (Bytes part; plane.read(Plane::kEventMetadata, &part)) {
        int64_t key = 0;
        Bytes value;
        for (Message<Entry> entry(part); entry.next();) {
          entry.read(Entry::kKey, &key);
          entry.read(Entry::kValue, &value);
        }
        names[key] = name_of(value);
      }
    }
    for (const Bytes& line : lines) read_line(line, name, names);
    ++process_;
  }
  Timeline take() { return std::move(timeline_); }

 private:
  void read_line(Bytes bytes, const std::string& plane,
                 const std::unordered_map<int64_t, std::string>& names) {
    std::string name, shown;
    int64_t start = 0;  // nanoseconds
    std::vector<Bytes> events;
    for (Message<Line> line(bytes); line.next();) {
      line.read(Line::kName, &name);
      line.read(Line::kDisplayName, &shown);
      line.read(Line::kTimestamp, &start);
      if (Bytes part; line.read(Line::kEvents, &part)) events.push_back(part);
    }
    const int track = static_cast<int>(timeline_.tracks.size());
    timeline_.tracks.push_back(
        {.process = process_, .process_name = plane, .name = shown.empty() ? name : shown});
    for (const Bytes& event : events) read_event(event, track, in_range(start), names);
  }

  void read_event(Bytes bytes, int track, int64_t start,
                  const std::unordered_map<int64_t, std::string>& names) {
    int64_t metadata = 0, offset = 0, duration = 0;  // picoseconds
    for (Message<Event> event(bytes); event.next();) {
      event.read(Event::kMetadata, &metadata);
      event.read(Event::kOffset, &offset);
      event.read(Event::kDuration, &duration);
    }
    if (timeline_.spans.size() == most_) {
      throw invalid_argument(fmt::format("the profile has more than {} events", most_),
                             "record fewer steps");
    }
    const auto name = names.find(metadata);
    const int64_t begin = start + in_range(offset) / 1000;
    timeline_.spans.push_back(
        {.name = name == names.end() ? fmt::format("event {}", metadata) : name->second,
         .track = track,
         .begin = begin,
         .end = begin + in_range(duration) / 1000});
  }

  const size_t most_;
  int process_ = 0;
  Timeline timeline_;
};

}  // namespace

formats::Timeline timeline_of_xspace(Bytes bytes, size_t most) {
  Reader reader(most);
  for (Message<Space> space(bytes); space.next();) {
    if (Bytes plane; space.read(Space::kPlanes, &plane)) reader.read_plane(plane);
  }
  return reader.take();
}

}  // namespace muster::inline v0_1::board
