// The message of one summary value, within an event. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/bytes.h"
#include "muster/base/result.h"
#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::formats::internal {

// Returns what encode_event() says of values.
Result<std::string> encode_summary_value(const SummaryValue& value);
// Throws Corrupt where the bytes are no such message.
SummaryValue decode_summary_value(Bytes bytes);

}  // namespace muster::inline v0_1::formats::internal
