// Whether a test can start its own program again, as death tests do. Thread safety: one thread.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace muster::inline v0_1::testing {

// The exit code of a child if the system cannot start a program of this processor: under qemu-user,
// unless the system knows it as an interpreter (binfmt_misc).
inline constexpr int kForeignProgram = 78;
inline constexpr const char* kNotStarted =
    "an emulator runs this, and the system cannot start programs of its processor: install "
    "qemu-user-binfmt";

// Replaces this process by this program with these arguments; ends it if that fails.
template <typename... Words>
[[noreturn]] void become_itself(const Words*... words) {
  execl("/proc/self/exe", "itself", words..., nullptr);
  _exit(errno == ENOEXEC ? kForeignProgram : 1);
}

inline bool starts_itself() {
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    become_itself("--gtest_list_tests");
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return true;  // the test reports the fault
  return !(WIFEXITED(status) && WEXITSTATUS(status) == kForeignProgram);
}

}  // namespace muster::inline v0_1::testing
