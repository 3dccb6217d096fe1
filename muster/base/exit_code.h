// The exit codes of programs, in addition to those of signals: 128 + n for signal n.
// exit_code(ErrorKind), which is declared with the kinds, chooses one for an error.
#pragma once

#include <array>

namespace muster::inline v0_1 {

inline constexpr int kExitFailed = 1;         // the same command would fail again
inline constexpr int kExitWrongUse = 2;       // a wrong argument, or something that was not found
inline constexpr int kExitInterrupted = 130;  // stopped by Ctrl-C
inline constexpr int kExitKilled = 137;       // a process below it was killed
inline constexpr int kExitRestart = 138;      // lost a peer or a resource: asks to be restarted
inline constexpr int kExitTerminated = 143;   // stopped by SIGTERM

// The codes after which the same command may succeed.
inline constexpr std::array kRetriedExitCodes = {kExitInterrupted, kExitKilled, kExitRestart,
                                                 kExitTerminated};

}  // namespace muster::inline v0_1
