// Why a process ends that std::terminate() or abort() ends, as where memory is short: a line on
// standard error, and an exit code where there is a reason for one. Thread-safe.
#pragma once

namespace muster::inline v0_1 {

// From now on an uncaught exception on any thread calls `report`, with that exception
// as the current one; it prints and returns the exit code with which the process ends. Where it
// fails for want of memory, a line of few words is written in its place, and the code is 1. A call
// of std::terminate() without an exception, and of abort(), is said in a line, and ends the process
// by SIGABRT as ever. An existing handler of SIGABRT is kept. Calls after the first one only
// replace `report`.
void install_last_words(int (*report)());

}  // namespace muster::inline v0_1
