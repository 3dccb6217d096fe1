// Writes lines for people to standard error: "I 12:03:45 message". The process has one log; any
// thread may write to it, and each line is written whole. MUSTER_LOG_LEVEL sets the lowest level
// that is written (debug, info, warning, error, off; default info). Lines have no colour when
// standard error is not a terminal or NO_COLOR is set.
//
// For machines, MUSTER_LOG_FORMAT=json or set_format() makes each line a JSON object with "time"
// (UTC), "level" and "message"; an event also has its name and fields.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1::log {

// The form of a line: text for people, or JSON for machines.
enum class Format { kText, kJson };

// Writes one line at this level. `message` has no line end.
MUSTER_EXPORT void debug(std::string_view message);
MUSTER_EXPORT void info(std::string_view message);
MUSTER_EXPORT void warning(std::string_view message);
MUSTER_EXPORT void error(std::string_view message);

// Write `message` the first time they are called with this text, and never again in this process.
// After a thousand different texts they write nothing more.
MUSTER_EXPORT void info_once(std::string_view message);
MUSTER_EXPORT void warning_once(std::string_view message);

// Writes an event at level info: `message` as text, or {"event": name, ...fields} as JSON.
// REQUIRES: fields is an object.
MUSTER_EXPORT void event(std::string_view name, const nlohmann::json& fields,
                         std::string_view message);

// Sets the format of lines; overrides MUSTER_LOG_FORMAT.
MUSTER_EXPORT void set_format(Format format);
// Parses "text" or "json". Throws InvalidArgument for another word.
MUSTER_EXPORT Format parse_format(std::string_view word);

// Shows a status line below the log until the next status replaces it; an empty text removes it. It
// is shown on a terminal, and when MUSTER_PROGRESS=bar (`muster run` sets this and shows one line
// for each task). It is dropped elsewhere, with MUSTER_PROGRESS=none, and when the log is JSON.
// Text beyond the terminal's width is cut.
MUSTER_EXPORT void status(std::string_view text);
MUSTER_EXPORT bool shows_status();
// Returns the number of columns available to a status; 80 when unknown.
MUSTER_EXPORT int status_width();

// Waits until all earlier lines are written.
MUSTER_EXPORT void flush();

}  // namespace muster::inline v0_1::log
