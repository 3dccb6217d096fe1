// For tests: the `muster` binary as a user meets it. Thread safety: as popen.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace muster::app {

struct Ran {
  int code = -1;
  std::string text;  // both streams
};

// What a shell makes of `line`, with no input.
inline Ran run_shell(const std::string& line) {
  FILE* pipe = popen(("{ " + line + "\n} 2>&1 </dev/null").c_str(), "r");
  Ran ran;
  std::array<char, 4096> bytes;
  while (const std::size_t count = fread(bytes.data(), 1, bytes.size(), pipe)) {
    ran.text.append(bytes.data(), count);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

// The line a shell runs for `muster arguments`.
inline std::string muster_line(const std::string& arguments) {
  const char* folder = std::getenv("MUSTER_BIN_DIR");
  if (folder == nullptr)
    return "echo 'MUSTER_BIN_DIR is not set: run this test through ctest'; false";
  return std::string(folder) + "/muster " + arguments;
}

inline Ran run_muster(const std::string& arguments) { return run_shell(muster_line(arguments)); }

}  // namespace muster::app
