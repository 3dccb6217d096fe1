#include "muster/program/run_main.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/last_words.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/terminal.h"
#include "muster/base/thread_count.h"
#include "muster/cluster/elastic.h"
#include "muster/command/command_line.h"
#include "muster/command/job_dir.h"
#include "muster/distribute/start_failure.h"
#include "muster/program/leave_reason.h"
#include "muster/program/start_node.h"
#include "muster/tensor/threads.h"
#include "muster/train/late_error.h"
#include "muster/train/stop_signal.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1 {
namespace {

int code_of(const Error& error) {
  // 130, 143, or 138 for SIGUSR1.
  if (error.kind() == ErrorKind::kCancelled)
    return 128 + (stop_signal() == 0 ? SIGTERM : stop_signal());
  return exit_code(error.kind());
}

void tell_others(const Error& error) {
  distribute::report_start_failure(error, [] { return stop_signal() != 0; });
}

int report(const Error& error) {
  // A request that was granted is not an error.
  if (error.kind() == ErrorKind::kCancelled) {
    log::info(error.message() + (error.hint().empty() ? "" : "; " + error.hint()));
  } else {
    log::error(error.what());
    leave_reason(error, Environment::process());
    tell_others(error);
  }
  log::flush();
  return code_of(error);
}

void add_flags(CLI::App& app, Flags& flags, const ProgramOptions& options) {
  std::set<std::string> uses(options.uses.begin(), options.uses.end());
  std::set<std::string> required(options.required.begin(), options.required.end());
  std::vector<std::string> known;
  for (Flag& flag : command::shared_flags(flags)) {
    if (!options.shared_flags) break;
    known.push_back(flag.name);
    if (!options.uses.empty() && uses.erase(flag.name) == 0) continue;
    flag.required = required.erase(flag.name) > 0;
    command::add_flag(app, flag);
  }
  const auto refuse_rest = [&](const char* field, const std::set<std::string>& names,
                               const std::string& own) {
    if (names.empty()) return;
    throw invalid_argument(
        fmt::format("ProgramOptions::{} has {}, which is not a shared flag of this program", field,
                    *names.begin()),
        fmt::format("the shared flags are {}; {}", join(known, ", "), own));
  };
  refuse_rest("uses", uses, "put the program's own flags into ProgramOptions::flags");
  refuse_rest("required", required,
              "add it to ProgramOptions::uses; for the program's own flag set Flag::required");
  for (const Flag& flag : options.flags) command::add_flag(app, flag);
  for (const Flag& argument : options.arguments) command::add_argument(app, argument);
}

bool has_flag(const ProgramOptions& options, const std::string& name) {
  return std::ranges::any_of(options.flags, [&](const Flag& flag) { return flag.name == name; });
}

// What the program calls the directory of its job: the shared flag, or one of its own.
std::string job_dir_of(const CLI::Option* model_dir, const Flags& flags,
                       const ProgramOptions& options) {
  for (const char* name : {"job-dir", "job_dir", "model_dir", "model-dir"}) {
    for (const Flag& flag : options.flags) {
      const auto* const text = std::get_if<std::string*>(&flag.value);
      if (flag.name == name && text != nullptr) return **text;
    }
  }
  return model_dir != nullptr ? flags.model_dir : "";
}

// GNU OpenMP reads its environment before main(), and by default a thread that waits for the others
// spins for milliseconds. Beside a busy neighbour that makes a program of two threads twenty times
// slower, so the program is started once more with a short spin. A user who sets either variable
// has chosen.
void spin_briefly() {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (set_threads(0) <= 1 || dlsym(RTLD_DEFAULT, "GOMP_parallel") == nullptr) return;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    words.push_back(text.c_str() + begin);
    begin += words.back().size() + 1;
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (words.empty() || setenv("GOMP_SPINCOUNT", "2000", 0) != 0) return;
  execv("/proc/self/exe", arguments.data());
  log::debug(
      "could not re-execute this process with GOMP_SPINCOUNT; it continues without, and may be "
      "slower");
}

// Prints the exception that is being handled, and returns its exit code.
int report_current() {
  try {
    throw;
  } catch (const Error& error) {
    return report(error);
  } catch (const c10::Error& error) {
    return report(internal_error(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    const Error foreign = foreign_error(error);
    if (!foreign.hint().empty()) return report(foreign);
    // The user's own: no word of ours on what kind it is.
    log::error(foreign.message());
    leave_reason(foreign, Environment::process());
    tell_others(foreign);
    log::flush();
    return exit_code(foreign.kind());
  } catch (...) {
    return report(unknown_error());
  }
}

// Before anything is printed.
void prepare_process() {
  open_standard_streams();
  // Whole lines at once also into a pipe or a file, so that they stand among those of the log.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  // A log without a reader is not worth the run.
  std::signal(SIGPIPE, SIG_IGN);
  // A file that grows beyond `ulimit -f` is an error of this file (EFBIG), as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  install_last_words(report_current);
}

}  // namespace

int run_main(int argc, char** argv, const std::function<void(const Flags&)>& program,
             const ProgramOptions& options) {
  prepare_process();
  try {
    Flags flags = options.defaults;
    const std::string path = argc > 0 ? argv[0] : "";
    CLI::App app(options.description,
                 options.name.empty() ? path.substr(path.rfind('/') + 1) : options.name);
    if (!options.examples.empty()) app.footer(options.examples);
    add_flags(app, flags, options);
    std::string job_dir;
    CLI::Option* model_dir = app.get_option_no_throw("--model_dir");
    if (model_dir != nullptr && !has_flag(options, "job-dir")) {
      // What clusters call it: they add it to the arguments of every program. Help has one name.
      command::add_flag(app, {"job-dir", &job_dir, "The same as --model_dir"})->group("");
      // Either of them will do where one must be given.
      if (std::any_of(argv + std::min(argc, 1), argv + argc, [](const std::string& word) {
            const std::string name = word.substr(0, word.find('='));
            return name == "--job-dir" || name == "--job_dir";
          }))
        model_dir->required(false);
    }
    std::string log_format;
    command::add_flag(app, command::log_format_flag(log_format));
    if (!command::parse(app, {argv + std::min(argc, 1), argv + argc})) return 0;
    if (!job_dir.empty() && model_dir->count() == 0) flags.model_dir = job_dir;
    command::set_job_dir(job_dir_of(model_dir, flags, options));
    if (!log_format.empty()) log::set_format(log::parse_format(log_format));
    // Before anything is read or made, and whatever the program reads of them later.
    (void)threads_asked_for(Environment::process());
    (void)cluster::min_workers(Environment::process(), /*source=*/"");
    check_watch_variables();
    if (const auto code = start_node({argv, argv + argc})) return *code;
    spin_briefly();
    install_stop_handlers();
    program(flags);
    if (const auto late = take_late_error()) return report(*late);
    return 0;
  } catch (...) {
    return report_current();
  }
}

void guard_main() {
  prepare_process();
  install_stop_handlers();
}

void print_result(const std::map<std::string, double>& metrics) {
  nlohmann::ordered_json result;
  if (metrics.count("global_step") != 0)
    result["global_step"] = static_cast<int64_t>(metrics.at("global_step"));
  if (metrics.count("loss") != 0) result["loss"] = metrics.at("loss");
  for (const auto& [name, value] : metrics) {
    if (name != "global_step" && name != "loss") result[name] = value;
  }
  // Line by line what is printed is written at once, so errno is that of these lines.
  errno = 0;
  if (std::printf("result: %s\n", result.dump().c_str()) >= 0 && std::fflush(stdout) == 0) return;
  if (errno != 0 && errno != EPIPE) {
    throw from_errno(errno, "cannot write the result to standard output",
                     "checkpoints are saved; free space on that disk, or redirect the output");
  }
}

}  // namespace muster::inline v0_1
