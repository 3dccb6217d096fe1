#include "muster/launch/exit_status.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <string_view>

#include "muster/base/exit_code.h"

namespace muster::inline v0_1::launch {
namespace {

// First come the codes of run_main(), then those on which shells and schedulers agree.
std::string_view code_meaning(int code) {
  switch (code) {
    case 0:
      return "done";
    case kExitFailed:
      return "the run failed: corrupt data, a non-finite loss, or an internal error";
    case kExitWrongUse:
      return "a wrong argument, something that was not found, or a place that cannot be written to";
    case 126:
      return "the program could not be executed";
    case 127:
      return "the program was not found";
    case kExitInterrupted:
      return "stopped by Ctrl-C";
    case kExitKilled:
      return "something below it was killed";
    case kExitRestart:
      return "lost a peer or a resource; asks to be restarted";
    case kExitTerminated:
      return "stopped by SIGTERM";
    default:
      return "";
  }
}

std::string_view signal_meaning(int signal) {
  switch (signal) {
    case SIGKILL:
      return "kill -9, or the machine ran out of memory";
    case SIGSEGV:
    case SIGBUS:
      return "a bad memory access: a bug in the program or a library";
    case SIGABRT:
      return "it aborted: an uncaught exception or a failed check";
    case SIGFPE:
      return "an arithmetic fault";
    case SIGILL:
      return "an instruction this processor does not know: built for another machine?";
    case SIGTERM:
      return "someone asked it to stop and it did not handle that";
    case SIGINT:
      return "Ctrl-C, not handled";
    default:
      return "";
  }
}

}  // namespace

ExitStatus ExitStatus::from_wait_status(int status) {
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status)};
}

std::string signal_name(int signal) {
  const char* abbreviation = sigabbrev_np(signal);
  return abbreviation != nullptr ? fmt::format("SIG{}", abbreviation)
                                 : fmt::format("signal {}", signal);
}

std::string explain(const ExitStatus& status) {
  std::string what = status.signal != 0 ? "killed by " + signal_name(status.signal)
                                        : fmt::format("exit code {}", status.code);
  const std::string_view meaning =
      status.signal != 0 ? signal_meaning(status.signal) : code_meaning(status.code);
  return meaning.empty() ? what : fmt::format("{} ({})", what, meaning);
}

}  // namespace muster::inline v0_1::launch
