// The message of one summary value, within an event. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/bytes.h"
#include "muster/base/result.h"
#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::formats::internal {

// As encode_event() for values.
Result<std::string> encode_summary_value(const SummaryValue& value);
// Throws Corrupt if the bytes are no such message.
SummaryValue decode_summary_value(Bytes bytes);

}  // namespace muster::inline v0_1::formats::internal
