#include "muster/board/internal/scalar_event.h"

#include "muster/formats/wire.h"

namespace muster::inline v0_1::board::internal {
namespace {

using formats::internal::WireReader;
using formats::internal::WireTag;
using formats::internal::WireType;

// The numbers of the fields, as in formats/event.cc and formats/internal/summary_codec.cc.
constexpr uint32_t kWallTime = 1, kStep = 2, kSummary = 5;
constexpr uint32_t kValue = 1;
constexpr uint32_t kTag = 1, kSimpleValue = 2;

bool read_value(WireReader from, ScalarOfEvent* to) {
  bool has_value = false;
  while (!from.done()) {
    WireTag tag;
    if (!from.tag(&tag)) return false;
    if (tag.is(kTag, WireType::kBytes)) {
      Bytes name;
      if (!from.bytes(&name)) return false;
      to->tag = text_of(name);
    } else if (tag.is(kSimpleValue, WireType::kFixed32)) {
      if (!from.fixed(&to->value)) return false;
      has_value = true;
    } else {
      return false;
    }
  }
  return has_value;
}

bool read_values(WireReader from, std::vector<ScalarOfEvent>* to) {
  while (!from.done()) {
    WireTag tag;
    WireReader value;
    ScalarOfEvent scalar;
    if (!from.tag(&tag) || !tag.is(kValue, WireType::kBytes) || !from.message(&value) ||
        !read_value(value, &scalar))
      return false;
    to->push_back(scalar);
  }
  return true;
}

}  // namespace

bool read_scalar_event(Bytes payload, ScalarEvent* event) {
  event->wall = 0;
  event->step = 0;
  event->scalars.clear();
  for (WireReader from(payload); !from.done();) {
    WireTag tag;
    if (!from.tag(&tag)) return false;
    WireReader summary;
    uint64_t step = 0;
    if (tag.is(kWallTime, WireType::kFixed64)) {
      if (!from.fixed(&event->wall)) return false;
    } else if (tag.is(kStep, WireType::kVarint)) {
      if (!from.varint(&step)) return false;
      event->step = static_cast<int64_t>(step);
    } else if (!tag.is(kSummary, WireType::kBytes) || !from.message(&summary) ||
               !read_values(summary, &event->scalars)) {
      return false;
    }
  }
  return !event->scalars.empty();
}

}  // namespace muster::inline v0_1::board::internal
