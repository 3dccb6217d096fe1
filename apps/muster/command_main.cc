#include "apps/muster/command_main.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "apps/muster/report_error.h"
#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/last_words.h"
#include "muster/base/terminal.h"
#include "muster/command/command_line.h"
#include "muster/launch/run.h"

namespace muster::app {
namespace {

// Returns the exit code, or an error's if the output could not be written: a script must not take
// that for success.
int flushed(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // An earlier write may have failed; then its reason is no longer known.
  const int reason = errno != 0 ? errno : EIO;
  report_error(
      from_errno(reason, "cannot write to standard output",
                 "the output is incomplete; free space on that disk, or redirect the output"));
  return code != 0 ? code : 1;
}

// Returns the place of the first `word` after the name of the command that is not a value of a
// flag.
std::vector<std::string>::const_iterator place_of(const CLI::App& command,
                                                  const std::vector<std::string>& words,
                                                  const std::string& word) {
  const auto name = std::ranges::find(words, command.get_name());
  bool value = false;
  for (auto at = name; at != words.end(); ++at) {
    if (*at == word && !value && at != name) return at;
    const CLI::Option* option = command.get_option_no_throw(*at);
    value = !value && option != nullptr && option->get_items_expected_max() > 0;
  }
  return words.end();
}

// The hint about a word or a flag that does not belong to `muster run` or `muster submit`: it may
// be meant for the program, but it is in front of the program.
std::string dashes_hint(const CLI::App& app, const std::vector<std::string>& words,
                        const std::string& name, const std::string& word) {
  for (const char* starter : {"run", "submit"}) {
    if (name != "muster " + std::string(starter)) continue;
    const CLI::App& command = *app.get_subcommand(starter);
    const CLI::Option* program = command.get_option_no_throw("PROGRAM");
    if (program == nullptr && word.starts_with('-')) return "";
    const auto at = place_of(command, words, word);
    if (program != nullptr && program->count() > 0 &&
        at < place_of(command, words, program->results().front())) {
      return "";
    }
    std::string line = "muster";
    for (auto before = words.begin(); before != at; ++before) {
      line += " " + launch::shell_quoted(*before);
    }
    return fmt::format("write two dashes before the program{}: {} -- {} ...",
                       program == nullptr ? "" : "'s arguments", line, launch::shell_quoted(word));
  }
  return "";
}

// Whether a scheduler, or the process that keeps a job, may start the command again: it starts
// tasks.
bool starts_tasks(const CLI::App& app) {
  if (asks_for(app, "run")) return true;
  if (!asks_for(app, "jobs")) return false;
  const CLI::App& jobs = *app.get_subcommand("jobs");
  return asks_for(jobs, "keep") || asks_for(jobs, "task");
}

CommandLine read_line(int argc, char** argv) {
  // The options of a task must not be read as ours, so everything after "--" is cut off first.
  CommandLine line;
  line.all.assign(argv + 1, argv + argc);
  const auto dashes = std::ranges::find(line.all, "--");
  line.words.assign(line.all.begin(), dashes);
  if (dashes != line.all.end()) line.program.assign(dashes + 1, line.all.end());
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  line.own_folder = self.parent_path().string();
  // The programs to which `muster` hands commands are installed in ../libexec/muster.
  line.muster_folder = line.own_folder;
  const auto bin = (self.parent_path() / "../../bin").lexically_normal();
  if (!std::filesystem::exists(self.parent_path() / "muster", ignored) &&
      std::filesystem::exists(bin / "muster", ignored)) {
    line.muster_folder = bin.string();
  }
  return line;
}

int run(int argc, char** argv, const Commands& commands) {
  const CommandLine line = read_line(argc, argv);
  CLI::App app("Muster: distributed training with Estimators.", "muster");
  app.require_subcommand(1);
  app.set_version_flag("--version", "muster " MUSTER_VERSION);
  app.footer(
      "Examples:\n"
      "  muster train people.csv --label=income\n"
      "  muster new shapes\n"
      "  muster data digits --out digits\n"
      "  muster run --workers=2 -- mnist --data_dir=digits --model_dir=model\n"
      "  muster board model\n"
      "  muster inspect checkpoint model\n"
      "  muster serve model/export\n"
      "\n"
      "muster COMMAND --help describes a command. Exit codes: 0 done, 1 corrupt data, output that\n"
      "cannot be written, a system that does not answer or an internal error, 2 a wrong argument "
      "or\n"
      "something not found.");
  Action action;
  commands.add(app, line, action);
  const auto surplus = [&](const std::string& command, const std::string& word) -> std::string {
    if (command == "muster jobs logs" && !word.starts_with('-'))
      return fmt::format("give the name of a single job: muster jobs logs {}", word);
    return dashes_hint(app, line.words, command, word);
  };
  if (!command::parse(app, line.words, surplus)) return 0;
  commands.before(app);
  if (starts_tasks(app)) return action();
  try {
    return action();
  } catch (const Error& error) {
    // 138 asks a scheduler for a restart, and looks like a signal if there is no scheduler.
    return report_error(error) == 2 ? 2 : 1;
  }
}

}  // namespace

bool asks_for(const CLI::App& app, const std::string& command) {
  return !app.get_subcommands(
                 [&](const CLI::App* one) { return one->get_name() == command && one->parsed(); })
              .empty();
}

int command_main(int argc, char** argv, const Commands& commands) {
  open_standard_streams();
  // Output that grows beyond `ulimit -f` fails as on a full disk, and does not end a run.
  std::signal(SIGXFSZ, SIG_IGN);
  install_last_words([] { return report_error(current_error()); });
  try {
    return flushed(run(argc, argv, commands));
  } catch (const Error& error) {
    return report_error(error);
  } catch (const std::exception& error) {
    // fmt throws where stdio returns an error.
    if (std::ferror(stdout) != 0) return flushed(1);
    return report_error(foreign_error(error));
  }
}

}  // namespace muster::app
