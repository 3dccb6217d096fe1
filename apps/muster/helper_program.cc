#include "apps/muster/helper_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::app {

HelperProgram find_helper_program(const std::string& own_folder, const std::string& name) {
  HelperProgram found;
  for (const std::string& folder : {own_folder, own_folder + "/../libexec/muster"}) {
    const std::string path = std::filesystem::path(folder + "/" + name).lexically_normal().string();
    if (access(path.c_str(), F_OK) == 0) {
      found.path = path;
      break;
    }
    found.looked_in.push_back(std::filesystem::path(folder).lexically_normal().string());
  }
  return found;
}

void become_program(const OtherProgram& program, const std::vector<std::string>& arguments,
                    const std::string& own_folder) {
  const HelperProgram found = find_helper_program(own_folder, program.name);
  if (found.path.empty()) {
    throw not_found(
        fmt::format("{}, {}, is not in {}", program.name, program.what,
                    join(found.looked_in, " or ")),
        fmt::format("build it with ./dev build {}, or install it (Debian: apt-get install {})",
                    program.name, program.name));
  }
  std::vector<std::string> line = {found.path};
  line.insert(line.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : line) words.push_back(word.data());
  words.push_back(nullptr);
  std::fflush(stdout);
  execv(found.path.c_str(), words.data());
  throw from_errno(errno, "cannot start " + found.path);
}

int become_helper(const HelperCommand& helper, const std::vector<std::string>& words,
                  const std::string& own_folder) {
  // GNU OpenMP reads it before main(): its threads must not spin where others want the cores.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "2000", 0);
  become_program({.name = helper.name, .what = helper.what},
                 {std::ranges::find(words, helper.command) + 1, words.end()}, own_folder);
}

}  // namespace muster::app
