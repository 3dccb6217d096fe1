#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/muster/board_report.h"
#include "apps/muster/commands.h"
#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/free_ports.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"
#include "muster/launch/run.h"
#include "muster/launch/run_record.h"
#include "muster/nodes/node_run.h"
#include "muster/stores/preemption_notice.h"

namespace muster::app {
namespace {

std::string default_log_format() {
  const std::string given = Environment::process().get_or("MUSTER_LOG_FORMAT", "");
  return given.empty() ? "text" : given;
}

// Adds "-- PROGRAM" to the usage, because CLI11 does not know of what stands after the dashes.
class WithProgram final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    usage.insert(usage.find_last_not_of('\n') + 1, " -- PROGRAM [ARGUMENTS]");
    return usage;
  }
};

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

struct RunFlags {
  launch::RunOptions run;
  std::string workers = "1";
  bool no_pin = false;
  bool dry_run = false;
  std::string log_format = default_log_format();
  double survivor_time = seconds(run.supervise.survivor_time);
  double grace = seconds(run.supervise.grace);
  double idle_time = seconds(run.supervise.idle_time);
  double stop_time = seconds(run.supervise.stop_time);
  std::string nodes{};
  nodes::NodeOptions node{};
  std::string preemption_notice{};
  std::string report{};
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<long>(seconds * 1000));
}

int run_on_nodes(RunFlags& flags) {
  if (flags.nodes.empty()) {
    throw invalid_argument("--rendezvous needs --nodes",
                           "add --nodes=I/N: the number of this machine, from 0, and of all");
  }
  const nodes::NodeOptions parsed = nodes::parse_nodes(flags.nodes);
  flags.node.node = parsed.node;
  flags.node.nodes = parsed.nodes;
  flags.node.least = parsed.least;
  if (flags.dry_run) {
    throw invalid_argument(
        "--dry-run with --nodes is not supported: the tasks have addresses when "
        "all machines have joined",
        "omit --nodes to see the tasks of one machine");
  }
  return nodes::run_node(flags.run, flags.node);
}

// "4", or "2:4" of a run that continues with 2 of 4.
void set_workers(const std::string& text, launch::RunOptions& run) {
  constexpr int kMost = 4096;
  const std::vector<std::string> bounds = split(text, ':');
  const auto least = parse_int(bounds.front()), most = parse_int(bounds.back());
  const bool in_range = least && most && *least >= 0 && *most <= kMost && bounds.size() <= 2;
  if (!in_range || (bounds.size() == 2 && (*least < 1 || *least > *most))) {
    std::string why;
    if (in_range && *least > *most) why = ": the minimum is larger than the maximum";
    if (in_range && *least < 1) why = ": the minimum is 0, but the chief must be left";
    throw invalid_argument(
        fmt::format("--workers is '{}'{}", text, why),
        fmt::format("pass a number of workers from 0 to {}, or MIN:MAX with 1 <= MIN <= MAX",
                    kMost));
  }
  run.workers = static_cast<int>(*most);
  run.min_workers = bounds.size() == 2 ? static_cast<int>(*least) : 0;
}

// This process gets SIGTERM, as if the cloud itself had sent it.
void stop_on_notice(const std::string& notice) {
  log::warning("preemption notice: " + notice + "; the run stops, as by SIGTERM");
  ::kill(::getpid(), SIGTERM);
}

// The model_dir that the program is given; empty without one.
std::string model_dir_of(const std::vector<std::string>& program) {
  std::string found;
  for (size_t word = 1; word < program.size(); ++word) {
    for (const std::string flag : {"--model_dir", "--model-dir"}) {
      if (program[word].starts_with(flag + "=")) found = program[word].substr(flag.size() + 1);
      if (program[word] == flag && word + 1 < program.size()) found = program[word + 1];
    }
  }
  return found;
}

// Runs, keeps the launcher's record in model_dir, and writes the report.
int run_with_report(RunFlags& flags, const std::vector<std::string>& all,
                    const std::string& model_dir) {
  std::vector<std::string> command = {"muster"};
  command.insert(command.end(), all.begin(), all.end());
  launch::RunRecord record(std::move(command));
  record.watch(flags.run);
  const int code = launch::run(flags.run);
  try {
    file_systems().make_directories(model_dir).value();
    file_systems()
        .write_atomically(join_path(model_dir, launch::kLaunchFile), record.to_json(code))
        .value();
  } catch (const Error& error) {
    log::warning("the report says nothing of starts and exits: " + error.message());
  }
  write_board_report(model_dir, flags.report);
  return code;
}

// Throws for a report that could not be written after the run. Returns its model_dir.
std::string check_report(const RunFlags& flags) {
  if (!flags.nodes.empty() || !flags.node.rendezvous.empty()) {
    throw invalid_argument(
        "not supported: --report with --nodes",
        "write the report when the run has ended: muster board MODEL_DIR --report=" + flags.report);
  }
  check_board_report(flags.report);
  const std::string model_dir = model_dir_of(flags.run.command);
  if (!model_dir.empty()) return model_dir;
  throw invalid_argument(
      "--report does not find the run's model_dir: the program has no argument --model_dir",
      "give the program --model_dir=DIR; or write the report when the run has ended: muster board "
      "DIR --report=" +
          flags.report);
}

int run(RunFlags& flags, const std::vector<std::string>& all, const std::string& own_folder) {
  flags.run.pin = !flags.no_pin;
  set_workers(flags.workers, flags.run);
  if (flags.log_format != "text" && flags.log_format != "json") {  // flags are checked
    throw invalid_argument(fmt::format("MUSTER_LOG_FORMAT is '{}'", flags.log_format),
                           "use text or json");
  }
  const log::Format format = log::parse_format(flags.log_format);
  log::set_format(format);
  flags.run.json = format == log::Format::kJson;
  flags.run.supervise.survivor_time = milliseconds(flags.survivor_time);
  flags.run.supervise.grace = milliseconds(flags.grace);
  flags.run.supervise.idle_time = milliseconds(flags.idle_time);
  flags.run.supervise.stop_time = milliseconds(flags.stop_time);
  if (!flags.run.command.empty()) {
    const char* path = std::getenv("PATH");
    flags.run.command[0] = launch::find_program(flags.run.command[0], path ? path : "", own_folder);
  }
  const std::string reported = flags.report.empty() ? "" : check_report(flags);
  std::optional<stores::PreemptionWatch> watch;
  if (!flags.preemption_notice.empty() && !flags.dry_run)
    watch.emplace(flags.preemption_notice, Environment::process(), stop_on_notice);
  if (!flags.nodes.empty() || !flags.node.rendezvous.empty()) return run_on_nodes(flags);
  if (!flags.dry_run && !reported.empty()) return run_with_report(flags, all, reported);
  if (!flags.dry_run) return launch::run(flags.run);
  const int tasks = std::max(1, launch::cluster_size(flags.run));
  const launch::RunPlan plan = launch::plan_run(flags.run, launch::this_machine(),
                                                free_ports(tasks), Environment::process());
  if (!plan.warning.empty()) log::warning(plan.warning);
  fputs(launch::describe(plan).c_str(), stdout);
  return 0;
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& all,
             const std::vector<std::string>& program, const std::string& own_folder,
             Action& action) {
  auto* command = app.add_subcommand("run", "Run a program as a cluster of tasks on this machine");
  auto flags = std::make_shared<RunFlags>();
  command->formatter(std::make_shared<WithProgram>());
  const auto flag = [&](const Flag& it) { command::add_flag(*command, it); };
  const FlagLimits count{.at_least = 0, .at_most = 4096};
  flag({"workers",
        &flags->workers,
        "Number of worker tasks (of each machine); 0 only with --chief. MIN:MAX starts MAX "
        "workers, and the run continues while MIN are left, the chief among them",
        {},
        "N|MIN:MAX"});
  flag({"chief", &flags->run.chief, "Add a task of type chief; without it worker 0 is the chief"});
  flag({"ps", &flags->run.ps, "Number of parameter servers; they need --chief", count});
  flag({"evaluator", &flags->run.evaluator,
        "Add a task that evaluates checkpoints while the others train"});
  flag({"cores-per-task", &flags->run.cores_per_task,
        "Number of cores of each task; 0: an equal share of all cores", count});
  flag(
      {"threads", &flags->run.threads,
       "Number of threads of each task; 0: MUSTER_THREADS, OMP_NUM_THREADS, or its number of cores",
       count});
  flag({"restart", &flags->run.restart,
        "How many times within an hour to restart after a task was killed or exits with 129 to "
        "192 (138 asks for it): with --ps, and for a worker of a run with a minimum, only that "
        "task, else all tasks; the evaluator is restarted alone",
        count});
  flag(
      {"nodes",
       &flags->nodes,
       "This machine's number, from 0, and the number of machines: 0/3. Each machine runs this "
       "command with --workers tasks. 0/2:3: the run continues while as many workers are left as 2 "
       "machines have, the chief among them, and lost machines may join again",
       {},
       "I/N|I/MIN:MAX"});
  flag({"rendezvous",
        &flags->node.rendezvous,
        "Address of machine 0 where the machines of --nodes meet; machine 0 serves it",
        {},
        "HOST:PORT"});
  flag({"preemption-notice",
        &flags->preemption_notice,
        "Ask the metadata server of this cloud every few seconds whether it will take or stop this "
        "machine; then the run stops, as by SIGTERM",
        {},
        "CLOUD",
        stores::notifying_clouds()});
  flag({"no-pin", &flags->no_pin, "Do not bind tasks to cores"});
  flag({"log-format",
        &flags->log_format,
        "Format of the output: text, or json (one object per line with its task, including the "
        "tasks' own log)",
        {},
        {},
        {"text", "json"}});
  flag({"report",
        &flags->report,
        "HTML file to write when the run has ended: its tasks, exits, restarts, shares of time and "
        "curves, from the program's --model_dir",
        {},
        "FILE"});
  flag({"tls", &flags->run.tls,
        "Encrypt calls to the coordinator with TLS, using certificates made for this run"});
  flag({"dry-run", &flags->dry_run, "Print what would be started without starting it"});
  const auto time = [&](const char* name, double& value, const char* help, double at_least = 0) {
    flag({name, &value, help, {.at_least = at_least, .at_most = 86400}, "SECONDS"});
  };
  time("survivor-time", flags->survivor_time,
       "Seconds that the other tasks get to end themselves after a task has failed");
  time("grace", flags->grace, "Seconds between SIGTERM and SIGKILL after that");
  time("idle-time", flags->idle_time,
       "Seconds that tasks may neither compute nor print after another task has ended well, before "
       "they count as hung",
       /*at_least=*/1);
  time("stop-time", flags->stop_time, "Seconds that tasks get to save after Ctrl-C or SIGTERM");
  time("join-time", flags->node.join_time,
       "Seconds until a machine of --nodes that does not join, or join again, is given up",
       /*at_least=*/1);
  command->footer(
      "Write the program and its arguments after two dashes: muster run [OPTIONS] -- PROGRAM "
      "ARGUMENTS...\n"
      "Each task gets TF_CONFIG, a free port on this machine, its share of cores, and its name "
      "before\n"
      "each line it prints. A single task gets no TF_CONFIG and trains alone.\n"
      "Ctrl-C stops all tasks and lets them save; a second Ctrl-C kills them. When a task fails, "
      "the\n"
      "others are stopped, and the exit code is that of the first task that failed on its own:\n"
      "  1, 2 a failure that will repeat · 138 asks to be restarted · 128 + n killed by signal n\n"
      "  130 stopped by Ctrl-C · 143 stopped by SIGTERM · 0 all tasks are done\n"
      "When an evaluator fails, the others continue, and the chief evaluates from then on. Its "
      "exit code\n"
      "is that of the run if the others end well.\n"
      "\n"
      "Examples:\n"
      "  muster run --workers=2 -- mnist --data_dir=digits --model_dir=model\n"
      "  muster run --workers=4 --cores-per-task=2 --dry-run -- ./train --epochs=3\n"
      "  muster run --chief --workers=3 -- ./train\n"
      "  muster run --workers=2 --evaluator -- mnist --data_dir=digits --model_dir=model\n"
      "  muster run --workers=2 --report=report.html -- mnist --data_dir=digits "
      "--model_dir=model\n"
      "  muster run --chief --workers=2 --ps=2 --restart=3 -- mnist --strategy=parameter_server\n"
      "  muster run --nodes=0/2 --rendezvous=node1:29500 --restart=3 -- ./train\n"
      "  muster run --nodes=0/1:2 --rendezvous=node1:29500 --restart=3 -- ./train");
  command->callback([flags, &all, program, own_folder, &action] {
    flags->run.command = program;
    action = [flags, &all, own_folder] { return run(*flags, all, own_folder); };
  });
}

}  // namespace muster::app
