#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/muster/commands.h"
#include "apps/muster/new_project.h"
#include "muster/command/command_line.h"

namespace muster::app {

void add_new(CLI::App& app, const std::string& self, Action& action) {
  auto* command = app.add_subcommand("new", "Make a new project that builds and trains");
  auto folder = std::make_shared<std::string>();
  command::add_argument(
      *command, {"DIR", folder.get(), "Folder to make; its last part is the project's name"})
      ->required();
  command->footer(
      "Writes a program with a model function, an input function and a test, a CMakeLists.txt that "
      "finds the\n"
      "installed library, and a README.md with the next steps. The program makes its own data, so "
      "nothing else is\n"
      "needed to train it. The command does not change a folder that contains files.\n"
      "\n"
      "Examples:\n"
      "  muster new shapes\n"
      "  muster new work/churn-model");
  command->callback([folder, self, &action] {
    action = [folder, self] {
      const NewProject made = write_new_project(*folder);
      fmt::print("{}", describe(made, self));
      return 0;
    };
  });
}

}  // namespace muster::app
