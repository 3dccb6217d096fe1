// The `muster` command: what a login node needs, without LibTorch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "apps/muster/commands.h"
#include "muster/base/error.h"

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
  std::reverse(words.begin(), words.end());  // as CLI11 takes them

  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);

  CLI::App app("Muster: distributed training with Estimators.", "muster");
  app.require_subcommand(1);
  app.set_version_flag("--version", "muster " MUSTER_VERSION);
  app.footer(
      "Examples:\n"
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
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const CLI::App* where = &app;
    for (auto chosen = where->get_subcommands(); !chosen.empty();
         chosen = where->get_subcommands()) {
      where = chosen.front();
    }
    const std::string name = where == &app ? "muster" : fmt::format("muster {}", where->get_name());
    throw muster::invalid_argument(error.what(),
                                   fmt::format("{} --help shows what there is", name));
  }
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
