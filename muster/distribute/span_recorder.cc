#include "muster/distribute/span_recorder.h"

namespace muster::inline v0_1::distribute {

void SpanRecorder::add(Lane lane, std::string_view name, TimePoint begin, TimePoint end,
                       Args args) {
  if (recorded_.spans.size() >= most_) {
    ++recorded_.left_out;
    return;
  }
  recorded_.spans.push_back({.name = std::string(name),
                             .track = lane,
                             .begin = begin.time_since_epoch().count(),
                             .end = end.time_since_epoch().count(),
                             .args = std::move(args)});
}

}  // namespace muster::inline v0_1::distribute
