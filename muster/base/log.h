// Lines for people, on standard error: "I 12:03:45 message". One sink for the process, thread-safe;
// a line is written whole. The level comes from MUSTER_LOG_LEVEL (debug, info, warning, error;
// default info).
#pragma once

#include <string_view>

namespace muster::log {

void debug(std::string_view message);
void info(std::string_view message);
void warning(std::string_view message);
void error(std::string_view message);

// Says `message` the first time it is called with this text, and never again in this process.
void warning_once(std::string_view message);

// Makes sure everything said so far is written.
void flush();

}  // namespace muster::log
