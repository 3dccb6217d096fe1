#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"
#include "apps/serve/serve_flags.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::app {
namespace {

// Becomes the program that links LibTorch: signals and the exit code are then its own.
int serve(const ServeFlags& flags, const std::vector<std::string>& words,
          const std::string& own_folder) {
  (void)model_name(flags);  // is checked before LibTorch is loaded
  const HelperProgram helper = find_helper_program(own_folder, "muster-serve");
  if (helper.path.empty()) {
    throw not_found("muster-serve, which loads LibTorch and the model, is not in " +
                        join(helper.looked_in, " or "),
                    "build it: ./dev build muster-serve; an installation of all of Muster has it");
  }
  std::vector<std::string> line = {helper.path};
  line.insert(line.end(), std::ranges::find(words, "serve") + 1, words.end());
  std::vector<char*> arguments;
  for (std::string& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // GNU OpenMP reads it before main(): its threads must not spin where connections want the cores.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "2000", 0);
  std::fflush(stdout);
  execv(helper.path.c_str(), arguments.data());
  throw from_errno(errno, "cannot start " + helper.path);
}

}  // namespace

void add_serve(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
               Action& action) {
  auto* command = app.add_subcommand("serve", "Answer requests over HTTP with an exported model");
  auto flags = std::make_shared<ServeFlags>();
  add_serve_flags(*command, *flags);
  command->callback([flags, &words, own_folder, &action] {
    action = [flags, &words, own_folder] { return serve(*flags, words, own_folder); };
  });
}

}  // namespace muster::app
