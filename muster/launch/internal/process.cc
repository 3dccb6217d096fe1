#include "muster/launch/internal/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1::launch::internal {
namespace {

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw from_errno(errno, "cannot open a pipe for a task's output",
                     "raise the limit of open files: ulimit -n");
  }
  return ends;
}

}  // namespace

Started start(const ProcessSpec& spec, const sigset_t& mask,
              const std::pair<std::string, std::string>& mark) {
  const auto out = make_pipe();
  const auto err = make_pipe();
  const auto close_all = [](std::initializer_list<int> ends) {
    for (const int end : ends) close(end);
  };
  std::vector<std::pair<std::string, std::string>> environment = spec.environment;
  environment.insert(environment.end(), spec.secrets.begin(), spec.secrets.end());
  environment.push_back(mark);
  pid_t pid = -1;
  try {
    pid = spawn({.name = spec.name,
                 .argv = spec.argv,
                 .environment = environment,
                 .without = spec.without,
                 .out = out[1],
                 .err = err[1],
                 .group = ChildSpec::Group::kOwnSession,
                 .dies_with_parent = true,
                 .cores = spec.cores,
                 .mask = mask});
  } catch (...) {
    close_all({out[0], out[1], err[0], err[1]});
    throw;
  }
  close_all({out[1], err[1]});
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  fcntl(err[0], F_SETFL, O_NONBLOCK);
  return {.pid = pid, .out = out[0], .err = err[0]};
}

std::optional<ExitStatus> peek_exit(pid_t pid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid) {
    return std::nullopt;
  }
  if (info.si_code == CLD_EXITED) return ExitStatus{.code = info.si_status};
  return ExitStatus{.signal = info.si_status};
}

void signal_group(pid_t pid, int signal) {
  // A stopped process acts on SIGTERM only when it runs again.
  if (kill(-pid, signal) == 0 && signal != SIGKILL) kill(-pid, SIGCONT);
}

}  // namespace muster::inline v0_1::launch::internal
