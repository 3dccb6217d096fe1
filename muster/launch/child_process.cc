#include "muster/launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <thread>

#include "muster/base/error.h"

extern char** environ;

namespace muster::inline v0_1::launch {
namespace {

constexpr auto kLook = std::chrono::milliseconds(2);
constexpr const char* kMoreFiles = "raise the limit of open files: ulimit -n";

std::vector<std::string> merged_environment(const ChildSpec& spec) {
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

// Is the child between fork and exec. It makes system calls only, because nothing may allocate or
// lock there.
[[noreturn]] void become(const ChildSpec& spec, char* const* argv, char* const* environment,
                         pid_t parent, int report) {
  const auto fail = [report] {
    const int number = errno;
    [[maybe_unused]] const ssize_t ignored = write(report, &number, sizeof number);
    _exit(127);
  };
  if (spec.group == ChildSpec::Group::kOwn) setpgid(0, 0);
  if (spec.group == ChildSpec::Group::kOwnSession) setsid();
  if (spec.dies_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the line above
  }
  if (!spec.cores.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : spec.cores) CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) fail();
  }
  const int nothing = open("/dev/null", O_RDONLY);
  // The error output gets another number first, because `out` may be 2, or `err` 1.
  const int err = fcntl(spec.err, F_DUPFD_CLOEXEC, 3);
  if (nothing < 0 || err < 0 || dup2(nothing, 0) < 0 || dup2(spec.out, 1) < 0 || dup2(err, 2) < 0)
    fail();
  if (nothing > 2) close(nothing);
  // A background job of a shell ignores SIGINT, but signals sent to the child must arrive.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM}) signal(number, SIG_DFL);
  if (spec.mask) sigprocmask(SIG_SETMASK, &*spec.mask, nullptr);
  execvpe(argv[0], argv, environment);
  fail();
  _exit(127);
}

}  // namespace

pid_t spawn(const ChildSpec& spec) {
  // All memory is allocated before fork().
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables = merged_environment(spec);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> environment = pointers(variables);
  const std::string what = fmt::format("cannot start '{}'{}", spec.argv.at(0),
                                       spec.name.empty() ? "" : " for " + spec.name);
  std::array<int, 2> report{-1, -1};
  if (pipe2(report.data(), O_CLOEXEC) != 0) throw from_errno(errno, what, kMoreFiles);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(spec, argv.data(), environment.data(), parent, report[1]);
  const int fork_errno = errno;
  close(report[1]);
  int child_errno = 0;
  // This ends at once, because the other end closes on exec or on exit.
  const bool failed = pid > 0 && read(report[0], &child_errno, sizeof child_errno) ==
                                     static_cast<ssize_t>(sizeof child_errno);
  close(report[0]);
  if (pid < 0) throw from_errno(fork_errno, what, "raise the limit of processes: ulimit -u");
  if (failed) {
    waitpid(pid, nullptr, 0);
    throw from_errno(child_errno, what,
                     child_errno == EMFILE ? kMoreFiles : "check that it exists and is executable");
  }
  return pid;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || status()) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ExitStatus> ChildProcess::status() {
  int word = 0;
  if (!status_ && waitpid(pid_, &word, WNOHANG) == pid_)
    status_ = ExitStatus::from_wait_status(word);
  return status_;
}

std::optional<ExitStatus> ChildProcess::wait_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!status() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(kLook);
  return status();
}

void ChildProcess::signal(int number) {
  if (!status()) kill(pid_, number);
}

}  // namespace muster::inline v0_1::launch
