// The `muster` command. It links no LibTorch, so it runs on login nodes too.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "apps/muster/commands.h"
#include "apps/muster/report_error.h"
#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/last_words.h"
#include "muster/base/log.h"
#include "muster/base/terminal.h"
#include "muster/command/command_line.h"
#include "muster/launch/run.h"
#include "muster/stores/stores.h"

namespace {

// Returns the exit code, or an error's when what was printed could not be written: a script must
// not take that for success.
int flushed(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // An earlier write may have failed; then its reason is no longer known.
  const int reason = errno != 0 ? errno : EIO;
  muster::app::report_error(
      muster::from_errno(reason, "cannot write to standard output",
                         "what was printed is not complete; free space where it goes, or send "
                         "it elsewhere"));
  return code != 0 ? code : 1;
}

// Returns the place of the first `word` behind the name of the command that is no value of a flag.
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

// The hint about a word or a flag that is none of `muster run` or `muster submit`: it may be meant
// for the program. In front of the program it is not.
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
      line += " " + muster::launch::shell_quoted(*before);
    }
    return fmt::format("write two dashes before the program{}: {} -- {} ...",
                       program == nullptr ? "" : "'s arguments", line,
                       muster::launch::shell_quoted(word));
  }
  return "";
}

// Whether a scheduler, or what keeps a job, may start the command again: it starts tasks.
bool starts_tasks(const CLI::App& app) {
  if (app.got_subcommand("run")) return true;
  if (!app.got_subcommand("jobs")) return false;
  const CLI::App& jobs = *app.get_subcommand("jobs");
  return jobs.got_subcommand("keep") || jobs.got_subcommand("task");
}

int run(int argc, char** argv) {
  // The options of a task must not be read as ours, so everything after "--" is cut off first.
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
      "  muster train people.csv --label=income\n"
      "  muster new shapes\n"
      "  muster data digits --out digits\n"
      "  muster run --workers=2 -- mnist --data_dir=digits --model_dir=model\n"
      "  muster inspect checkpoint model\n"
      "  muster serve model/export\n"
      "\nmuster COMMAND --help says more. Exit codes: 0 done, 1 corrupt data, output that "
      "cannot be\n"
      "written, a system that does not answer or an internal error, 2 a wrong argument or "
      "something\n"
      "not found.");
  muster::app::Action action;
  muster::app::add_run(app, program, self.parent_path().string(), action);
  muster::app::add_submit(app, program, self.parent_path().string(), action);
  muster::app::add_jobs(app, self.parent_path().string(), action);
  muster::app::add_job(app, program, action);
  muster::app::add_data(app, action);
  muster::app::add_inspect(app, action);
  muster::app::add_export(app, action);
  muster::app::add_files(app, action);
  muster::app::add_serve(app, words, self.parent_path().string(), action);
  muster::app::add_train(app, words, self.parent_path().string(), action);
  muster::app::add_new(app, self, action);
  muster::app::add_image(app, self, action);
  muster::app::add_certificates(app, action);
  muster::app::add_completion(app, action);
  muster::app::add_doctor(app, self.parent_path().string(), action);
  const auto surplus = [&](const std::string& command, const std::string& word) -> std::string {
    if (command == "muster jobs logs" && !word.starts_with('-'))
      return fmt::format("the log of one job at a time: muster jobs logs {}", word);
    return dashes_hint(app, words, command, word);
  };
  if (!muster::command::parse(app, words, surplus)) return 0;
  // Who looks at a bucket by hand sits and waits.
  if (app.got_subcommand("ls") || app.got_subcommand("cp") || app.got_subcommand("cat") ||
      app.got_subcommand("inspect")) {
    muster::stores::set_retry_seconds(30);
  }
  if (starts_tasks(app)) return action();
  try {
    return action();
  } catch (const muster::Error& error) {
    // 138 asks a scheduler for a restart, and reads like a signal to who has none.
    return muster::app::report_error(error) == 2 ? 2 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  muster::open_standard_streams();
  muster::install_last_words([] { return muster::app::report_error(muster::current_error()); });
  try {
    return flushed(run(argc, argv));
  } catch (const muster::Error& error) {
    return muster::app::report_error(error);
  } catch (const std::exception& error) {
    // fmt throws where stdio returns an error.
    if (std::ferror(stdout) != 0) return flushed(1);
    return muster::app::report_error(muster::foreign_error(error));
  }
}
