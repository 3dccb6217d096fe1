// The `muster` command: what a login node needs, without LibTorch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "apps/muster/commands.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/command/command_line.h"

namespace {

// The hint and causes each on a line of their own, no kind: the exit code says it to programs.
int report(const muster::Error& error) {
  std::string text = fmt::format("error: {}\n", error.message());
  for (const std::string& cause : error.causes()) text += fmt::format("  caused by: {}\n", cause);
  if (!error.hint().empty()) text += fmt::format("hint: {}\n", error.hint());
  fputs(text.c_str(), stderr);
  return muster::exit_code(error.kind());
}

int run(int argc, char** argv) {
  // A task's own options must not be read as ours, so everything after "--" is cut off first.
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto dashes = std::find(words.begin(), words.end(), "--");
  std::vector<std::string> program;
  if (dashes != words.end()) program.assign(dashes + 1, words.end());
  words.erase(dashes, words.end());
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);

  CLI::App app("Muster: distributed training with Estimators.", "muster");
  app.require_subcommand(1);
  app.set_version_flag("--version", "muster " MUSTER_VERSION);
  app.footer(
      "Examples:\n"
      "  muster new shapes\n"
      "  muster data digits --out digits\n"
      "  muster run --workers=2 -- mnist --data_dir=digits --model_dir=model\n"
      "  muster inspect checkpoint model\n"
      "\nmuster COMMAND --help says more. Exit codes: 0 done, 1 corrupt data or an internal "
      "error,\n"
      "2 a wrong argument or something not found.");
  muster::app::Action action;
  muster::app::add_run(app, program, self.parent_path().string(), action);
  muster::app::add_data(app, action);
  muster::app::add_inspect(app, action);
  muster::app::add_new(app, self, action);
  muster::app::add_completion(app, action);
  muster::app::add_doctor(app, self.parent_path().string(), action);
  // The line up to the program again, with the dashes where they belong.
  const auto surplus = [&](const std::string& command, const std::string& word) -> std::string {
    if (command != "muster run") return "";
    const std::vector<std::string> before(words.begin(),
                                          std::find(words.begin(), words.end(), word));
    return fmt::format("write two dashes before the program: muster {} -- {} ...",
                       muster::join(before, " "), word);
  };
  if (!muster::command::parse(app, words, surplus)) return 0;
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const muster::Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    return report(muster::internal_error(error.what()));
  }
}
