// The log's way to the sink of a program (log_sink.h). Thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "muster/base/log_sink.h"

namespace muster::inline v0_1::log::internal {

// Whether a program has set a sink.
bool has_sink();

// Hands a line to the sink. Returns false if the caller must write it to standard error: there is
// no sink, this thread is in it, or it threw. `name` and `fields` are those of an event.
bool hand_over(Level level, std::string_view message, std::string_view name = {},
               const nlohmann::json* fields = nullptr);

// Calls the flush of the sink.
void flush_sink();

}  // namespace muster::inline v0_1::log::internal
