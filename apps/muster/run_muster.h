// Runs the `muster` binary in a shell, as a user does, for tests. Thread safety: as popen().
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace muster::app {

// The exit code and the output of a shell.
struct ShellOutput {
  int code = -1;       // the exit code; 128 + the signal that ended it
  std::string text{};  // both streams
};

// Runs `line` in a shell, without input.
inline ShellOutput run_shell(const std::string& line) {
  FILE* pipe = popen(("{ " + line + "\n} 2>&1 </dev/null").c_str(), "r");
  ShellOutput ran;
  std::array<char, 4096> bytes;
  while (const std::size_t count = fread(bytes.data(), 1, bytes.size(), pipe)) {
    ran.text.append(bytes.data(), count);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

// Returns the line that a shell runs for `muster arguments`.
inline std::string muster_line(const std::string& arguments) {
  const char* folder = std::getenv("MUSTER_BIN_DIR");
  if (folder == nullptr)
    return "echo 'MUSTER_BIN_DIR is not set: run this test through ctest'; false";
  return std::string(folder) + "/muster " + arguments;
}

inline ShellOutput run_muster(const std::string& arguments) {
  return run_shell(muster_line(arguments));
}

}  // namespace muster::app
