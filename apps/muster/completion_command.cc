#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "apps/jobs/commands.h"
#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"
#include "muster/base/strings.h"
#include "muster/command/command_line.h"
#include "muster/command/shared_flags.h"
#include "muster/launch/subprocess.h"

namespace muster::app {
namespace {

// Returns the kind of an option's value, in the terms of the script below.
std::string kind_of(const CLI::Option& option) {
  const std::string& placeholder =
      option.get_positional() ? option.get_name() : option.get_type_name();
  if (placeholder == "DIR") return "directory";
  if (placeholder == "PATH" || placeholder == "FILE") return "file";
  return "nothing";
}

// The output of muster-jobs about its commands; nothing if it is not installed.
std::string branches_of_jobs(const std::string& own_folder) {
  const HelperProgram jobs = find_helper_program(own_folder, "muster-jobs");
  if (jobs.path.empty()) return "";
  return launch::run_to_end({jobs.path, "completion"}, std::chrono::seconds(20)).out;
}

// Returns the branch of the script's `case` for `app`, and the branches of its commands.
std::string branches(const CLI::App& app) {
  std::vector<std::string> commands, flags, values;
  std::string word = "nothing";
  // A command that only Muster starts has no group.
  const auto shown =
      app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
  for (const CLI::App* command : shown) commands.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) word = kind_of(*option);
    const bool valued = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name + (valued ? "=" : ""));
      if (valued) values.push_back(fmt::format("--{}:{}", name, kind_of(*option)));
    }
  }
  std::string text = fmt::format("    '{}') commands='{}' flags='{}' values='{}' word={} ;;\n",
                                 command::full_name(app), join(commands, " "), join(flags, " "),
                                 join(values, " "), word);
  for (const CLI::App* command : shown) {
    const bool elsewhere = std::ranges::any_of(kCommandsOfJobs, [&](const JobsCommand& other) {
      return app.get_parent() == nullptr && command->get_name() == other.name;
    });
    if (!elsewhere) text += branches(*command);
  }
  return text;
}

// Returns the branch for words after a program: the flags that Muster's programs share.
std::string branch_of_programs() {
  CLI::App program("", "muster run --");
  Flags flags;
  std::string log_format;
  for (const Flag& flag : command::shared_flags(flags)) command::add_flag(program, flag);
  command::add_flag(program, command::log_format_flag(log_format));
  return branches(program);
}

constexpr const char* kBefore = R"(# bash completion for muster, made by: muster completion bash
# A reply is a line, whatever it holds: names of files are not patterns.
_muster_reply() {
  mapfile -t COMPREPLY < <(compgen "$@")
}

# What the command $1 takes: its commands, flags, the values of its flags, other words.
_muster_takes() {
  case $1 in
)";

constexpr const char* kAfter = R"(  esac
}

_muster() {
  local commands flags values word i line=muster
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} flag=
  COMPREPLY=()
  # Bash takes "=" for a word of its own.
  if [[ $current == = ]]; then
    flag=$before current=
  elif [[ $before == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ $before == --* ]]; then
    flag=$before
  fi
  _muster_takes "$line"
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      [[ $line == 'muster run' || $line == 'muster submit' ]] || return
      # A job's program stands before the dashes.
      if [[ $line == 'muster submit' ]]; then
        line='muster run --'
        _muster_takes "$line"
        word=file
        break
      fi
      # The program, then its own arguments.
      if ((COMP_CWORD == i + 1)); then
        compopt -o filenames 2>/dev/null
        _muster_reply -c -A directory -- "$current"
        return
      fi
      # A program that has a completion knows best. It is not run to be asked.
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
        [[ ${#COMPREPLY[@]} == 0 ]] || return
      fi
      line+=' --'
      _muster_takes "$line"
      word=file
      break
    fi
    if [[ " $commands " == *" ${COMP_WORDS[i]} "* ]]; then
      line+=" ${COMP_WORDS[i]}"
      _muster_takes "$line"
    fi
  done
  if [[ -n $flag && " $values" == *" $flag:"* ]]; then
    word=${values#*"$flag:"}
    word=${word%% *}
  elif [[ $current == -* ]]; then
    [[ $line != 'muster run' ]] || flags+=' --'
    _muster_reply -W "$flags" -- "$current"
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
    return
  elif [[ -n $commands ]]; then
    _muster_reply -W "$commands" -- "$current"
    return
  elif [[ $line == 'muster run' ]]; then
    _muster_reply -W '--' -- "$current"
    return
  fi
  case $word in
    directory) compopt -o filenames 2>/dev/null; _muster_reply -d -- "$current" ;;
    file) compopt -o filenames 2>/dev/null; _muster_reply -f -- "$current" ;;
  esac
}

complete -F _muster muster
)";

}  // namespace

std::string completion_of(const CLI::App& app) { return branches(app); }

void add_completion(CLI::App& app, const std::string& own_folder, Action& action) {
  auto* command = app.add_subcommand(
      "completion", "Print the shell script that completes muster's commands and flags");
  command->require_subcommand(1);
  command->footer("Example:\n  source <(muster completion bash)");
  auto* bash = command->add_subcommand("bash", "For bash");
  bash->footer(
      "An installed muster includes it: bash loads it automatically if the package bash-completion "
      "is\n"
      "installed and the prefix is /usr, /usr/local or ~/.local.\n"
      "\n"
      "Examples:\n"
      "  source <(muster completion bash)\n"
      "  echo 'source <(muster completion bash)' >> ~/.bashrc");
  bash->callback([&app, own_folder, &action] {
    action = [&app, own_folder] {
      fputs((kBefore + branches(app) + branches_of_jobs(own_folder) + branch_of_programs() + kAfter)
                .c_str(),
            stdout);
      return 0;
    };
  });
}

}  // namespace muster::app
