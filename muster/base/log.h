// Lines for people, on standard error: "I 12:03:45 message". One sink for the process, thread-safe;
// a line is written whole. The level comes from MUSTER_LOG_LEVEL (debug, info, warning, error, off;
// default info), colour is left out when standard error is no terminal or NO_COLOR is set.
//
// For machines, MUSTER_LOG_FORMAT=json or set_format() makes each line a JSON object: "time" (UTC),
// "level", "message", and for an event its name and fields.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace muster::inline v0_1::log {

// How a line looks: for people or for machines.
enum class Format { kText, kJson };

// One line at this level, without a line end.
void debug(std::string_view message);
void info(std::string_view message);
void warning(std::string_view message);
void error(std::string_view message);

// Says `message` the first time it is called with this text, and never again in this process.
void warning_once(std::string_view message);

// What happened, for both readers: `message` as text, or {"event": name, ...fields} as JSON. At
// level info. REQUIRES: fields is an object.
void event(std::string_view name, const nlohmann::json& fields, std::string_view message);

// Overrides MUSTER_LOG_FORMAT.
void set_format(Format format);
// "text" or "json"; throws InvalidArgument for another word.
Format parse_format(std::string_view word);

// A line that stands below the others until the next status replaces it; empty text takes it away.
// Seen on a terminal, or where MUSTER_PROGRESS=bar asks for it (as `muster run` does, which shows
// one for each task); elsewhere, with MUSTER_PROGRESS=none and as JSON it is dropped. One line:
// text beyond the terminal's width is cut.
void status(std::string_view text);
bool shows_status();
// Columns a status may have; 80 when that cannot be told.
int status_width();

// Makes sure everything said so far is written.
void flush();

}  // namespace muster::inline v0_1::log
