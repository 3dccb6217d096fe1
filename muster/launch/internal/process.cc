#include "muster/launch/internal/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"

extern char** environ;

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

std::vector<std::string> merged_environment(const ProcessSpec& spec) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(spec.environment.begin(), spec.environment.end(),
                    [&](const auto& item) { return item.first == name; }) ||
        std::find(spec.without.begin(), spec.without.end(), name) != spec.without.end();
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : spec.environment) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// What the child does between fork and exec: system calls only, nothing that allocates or locks.
[[noreturn]] void become(const ProcessSpec& spec, char* const* argv, char* const* environment,
                         const sigset_t& mask, pid_t parent, int out, int err, int report) {
  const auto fail = [report] {
    const int number = errno;
    [[maybe_unused]] const ssize_t ignored = write(report, &number, sizeof number);
    _exit(127);
  };
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // we died before the line above
  if (!spec.cores.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : spec.cores) CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) fail();
  }
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) fail();
  if (nothing > 2) close(nothing);
  // A shell's background job ignores SIGINT; what we forward must arrive.
  for (const int number : {SIGPIPE, SIGINT, SIGTERM}) signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(argv[0], argv, environment);
  fail();
  _exit(127);
}

}  // namespace

Started start(const ProcessSpec& spec, const sigset_t& mask) {
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables = merged_environment(spec);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> environment = pointers(variables);
  const auto out = make_pipe();
  const auto err = make_pipe();
  const auto report = make_pipe();
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    become(spec, argv.data(), environment.data(), mask, parent, out[1], err[1], report[1]);
  }
  const int fork_errno = errno;
  close(out[1]);
  close(err[1]);
  close(report[1]);
  int child_errno = 0;
  // Ends at once: the write end closes on exec or on exit.
  const bool reported = pid > 0 && read(report[0], &child_errno, sizeof child_errno) ==
                                       static_cast<ssize_t>(sizeof child_errno);
  close(report[0]);
  if (pid < 0 || reported) {
    close(out[0]);
    close(err[0]);
    if (pid < 0) throw from_errno(fork_errno, fmt::format("cannot start {}", spec.name));
    waitpid(pid, nullptr, 0);
    throw from_errno(child_errno, fmt::format("cannot run '{}' for {}", spec.argv[0], spec.name),
                     "check that it exists and is executable");
  }
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
  // A stopped process acts on SIGTERM only once it runs again.
  if (kill(-pid, signal) == 0 && signal != SIGKILL) kill(-pid, SIGCONT);
}

}  // namespace muster::inline v0_1::launch::internal
