// Writes lines for people to standard error: "I 12:03:45 message". The process has one log; any
// thread may write to it, and a line is written whole. The level comes from MUSTER_LOG_LEVEL
// (debug, info, warning, error, off; default info), colour is left out when standard error is no
// terminal or NO_COLOR is set.
//
// For machines, MUSTER_LOG_FORMAT=json or set_format() makes each line a JSON object: "time" (UTC),
// "level", "message", and for an event its name and fields.
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

// Say `message` the first time they are called with this text, and never again in this process.
// After a thousand texts they say nothing more.
MUSTER_EXPORT void info_once(std::string_view message);
MUSTER_EXPORT void warning_once(std::string_view message);

// Writes what happened, at level info: `message` as text, or {"event": name, ...fields} as JSON.
// REQUIRES: fields is an object.
MUSTER_EXPORT void event(std::string_view name, const nlohmann::json& fields,
                         std::string_view message);

// Sets the form of lines, in place of MUSTER_LOG_FORMAT.
MUSTER_EXPORT void set_format(Format format);
// Reads "text" or "json". Throws InvalidArgument for another word.
MUSTER_EXPORT Format parse_format(std::string_view word);

// Shows a line below the others until the next status replaces it; an empty text removes it. It is
// shown on a terminal, and where MUSTER_PROGRESS=bar asks for it (as `muster run` does, which shows
// one for each task). Elsewhere, with MUSTER_PROGRESS=none, and as JSON, it is dropped. Text beyond
// the terminal's width is cut.
MUSTER_EXPORT void status(std::string_view text);
MUSTER_EXPORT bool shows_status();
// The columns that a status may have; 80 when they cannot be told.
MUSTER_EXPORT int status_width();

// Makes sure everything said so far is written.
MUSTER_EXPORT void flush();

}  // namespace muster::inline v0_1::log
