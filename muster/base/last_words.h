// Reports why a process ends by std::terminate() or abort(), for example when memory is short: a
// line on standard error, and an exit code if the reason has one. Thread-safe.
#pragma once

namespace muster::inline v0_1 {

// From now on an uncaught exception, on any thread, calls `report`, with that exception as the
// current one; it prints and returns the exit code with which the process ends. If `report` fails
// for lack of memory, a short line is written instead, and the code is 1. std::terminate() without
// an exception and abort() print a line, and end the process by SIGABRT as before. A handler of
// SIGABRT that is already installed is kept. Calls after the first one only replace `report`.
void install_last_words(int (*report)());

}  // namespace muster::inline v0_1
