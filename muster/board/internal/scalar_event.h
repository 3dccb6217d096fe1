// Reads an event that holds nothing but scalars, which most events of a run are, without copies.
// formats::decode_event() reads every event, and takes several times as long: most of that goes to
// lists and texts that are thrown away. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"

namespace muster::inline v0_1::board::internal {

// The tag is a part of the event's bytes.
struct ScalarOfEvent {
  std::string_view tag;
  float value = 0;
};

struct ScalarEvent {
  double wall = 0;  // Unix time, seconds
  int64_t step = 0;
  std::vector<ScalarOfEvent> scalars{};
};

// Fills `event`. Returns false for an event that holds anything else, and for bytes that are no
// event.
bool read_scalar_event(Bytes payload, ScalarEvent* event);

}  // namespace muster::inline v0_1::board::internal
