#include "tests/faults/served_cell.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "muster/base/error.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kServedSteps = 60;  // of the victim
// Longer than the silence after which the victim's servers take a worker for lost.
constexpr auto kStandsStill = 2500ms;
// A run has seconds of work and waits for whom it loses for at most 20 s, twice where that is the
// chief, and then the others.
constexpr auto kMostTime = 90s;

// The process that says that the run has come to the phase: the struck one, if it comes to it
// itself.
std::string served_speaker(const ServedCell& cell) {
  if (cell.phase == "start") return cell.task == "launcher" ? "chief 0" : cell.task;
  if (cell.phase == "evaluate" || cell.phase == "export") return "evaluator 0";
  return cell.task == "worker 0" && cell.phase != "save" ? cell.task : "chief 0";
}

// A launcher is struck from outside in any case.
bool task_strikes_itself(const ServedCell& cell) {
  return cell.task != "launcher" && strikes_itself(cell.signal);
}

Variables served_variables(const ServedCell& cell, const std::string& trigger) {
  const bool itself = task_strikes_itself(cell);
  // Without a restart nobody need be patient.
  return {{"FAULT_SERVED", cell.restarts ? "20" : "2"},
          {"FAULT_PHASE", cell.phase},
          {"FAULT_TASK", served_speaker(cell)},
          {"FAULT_TRIGGER", itself ? trigger : ""},
          {"FAULT_BLOW", itself ? blow_name(cell.signal) : ""},
          {"FAULT_STRUCK", cell.task},
          {"OMP_NUM_THREADS", "1"}};
}

pid_t process_of(const ServedCell& cell, const Program& program) {
  if (cell.task == "launcher") return program.pid();
  const size_t space = cell.task.find(' ');
  return program.task(cell.task.substr(0, space), std::stoi(cell.task.substr(space + 1)));
}

// Whether the blow costs time alone: connections that are cut are made again, and a launcher whose
// output cannot be written goes on.
bool costs_time_alone(const ServedCell& cell) {
  return cell.signal == SIGSTOP || cell.signal == kTenTimesSlower ||
         cell.signal == kCutConnections ||
         (cell.signal == kDiskFull && (cell.task == "launcher" || cell.task == "worker 0"));
}

// Without a restart the run ends with the one that was killed, except for a worker and the
// evaluator, without whom the others go on.
int served_code(const ServedCell& cell) {
  if (cell.signal == SIGTERM) {
    // At its end a worker has nothing left to stop. A stopped task is not started again.
    const bool trains = cell.task == "chief 0" || cell.task == "worker 0";
    return cell.phase == "end" && trains ? 0 : 128 + SIGTERM;
  }
  if (costs_time_alone(cell)) return 0;
  if (cell.signal == kDiskFull) return 2;
  if (cell.task == "launcher") return -cell.signal;
  return cell.restarts ? 0 : 128 + cell.signal;
}

bool comes_to_its_end(const ServedCell& cell) {
  // A server that is asked to stop leaves when the chief has saved, and may leave the run before
  // its end.
  const bool is_server = cell.task.starts_with("ps");
  if (cell.signal == SIGTERM && is_server) return cell.phase == "end";
  return served_code(cell) == 0 || cell.task == "worker 0" || cell.task == "evaluator 0";
}

// Whether a chief that is asked to stop has steps to save.
bool saves_on_request(const ServedCell& cell) {
  const bool chief_is_asked = cell.task == "chief 0" || cell.task == "launcher";
  return cell.signal == SIGTERM && chief_is_asked && cell.phase != "start" && cell.phase != "end";
}

// The largest step that the output names as saved; -1 without one.
int64_t last_saved(const std::string& output) {
  static constexpr std::string_view kSaved = "saved ", kName = "/model.ckpt-";
  int64_t last = -1;
  for (size_t at = output.find(kSaved); at != std::string::npos; at = output.find(kSaved, at + 1)) {
    const std::string line = output.substr(at, output.find('\n', at) - at);
    const size_t name = line.rfind(kName);
    if (name != std::string::npos)
      last = std::max<int64_t>(last, std::stoll(line.substr(name + kName.size())));
  }
  return last;
}

// A chief that is asked to stop saves its steps. Or it has saved the last one, and waits for the
// evaluator, which may be asked to stop before it evaluates.
bool says_that_it_has_saved(const std::string& output) {
  const auto says = [&](const std::string& text) { return output.find(text) != std::string::npos; };
  if (says("stopped by SIGTERM after saving step")) return true;
  return last_saved(output) == kServedSteps &&
         (says(fmt::format("evaluated step {}, the last one", kServedSteps)) ||
          says("stopped by SIGTERM: waiting for evaluator"));
}

// Strikes as the cell says, and waits until the blow is over.
void send(const ServedCell& cell, pid_t struck, const std::string& trigger,
          std::optional<Brake>* brake) {
  if (task_strikes_itself(cell)) return write_file(trigger, "");
  if (cell.signal == kDiskFull) return fill_disk(struck);
  if (cell.signal == kTenTimesSlower) {
    brake->emplace(struck);
    return;
  }
  ::kill(struck, cell.signal);
  if (cell.signal != SIGSTOP) return;
  // The blow itself: how long the task stands still decides whether it is taken for lost.
  std::this_thread::sleep_for(kStandsStill);
  ::kill(struck, SIGCONT);
}

// Starts the run again, without an evaluator. Returns the step from which it continues; -1 for
// none.
int64_t found_again(const Words& victim, std::string& output, std::string& broken) {
  const Ran again = run(muster_run({"--chief", "--workers=1", "--ps=2"}, victim),
                        {{"FAULT_SERVED", "20"}, {"OMP_NUM_THREADS", "1"}});
  output += "--- again:\n" + again.output;
  if (again.code != 0)
    broken += fmt::format("the same command ends with {} afterwards\n", again.code);
  for (const std::string text : {"the checkpoint is at step ", "continuing after step "}) {
    const size_t at = again.output.find(text);
    if (at != std::string::npos) return std::stoll(again.output.substr(at + text.size()));
  }
  return -1;
}

ServedMeasured strike_once(const ServedCell& cell, bool* late) {
  const TempDirectory directory;
  const Words victim = {binary("fault_victim"), "--model_dir=" + directory / "model"};
  ServedMeasured measured;
  std::string broken, output;
  try {
    Words options = {"--chief", "--workers=1", "--ps=2", "--evaluator"};
    if (cell.restarts) options.emplace_back("--restart=2");
    const std::string trigger = directory / "trigger";
    Program program(muster_run(options, victim), served_variables(cell, trigger));
    if (!program.says("phase: " + cell.phase))
      throw not_found("the run ended before the phase:\n" + program.output());
    const std::vector<pid_t> tasks = program.children();
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Brake> brake;
    send(cell, process_of(cell, program), trigger, &brake);
    measured.code = program.wait(kMostTime);
    brake.reset();
    wait_until_gone(tasks);
    measured.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    output = program.output();
    *late = measured.code == 0 && served_code(cell) != 0;
    if (measured.code != served_code(cell)) {
      broken += fmt::format("the exit code is {}, not {}\n", measured.code, served_code(cell));
    }
    if (saves_on_request(cell) && !says_that_it_has_saved(output))
      broken += "the chief does not say that it has saved\n";
    const int64_t said = last_saved(output);
    measured.saved = found_again(victim, output, broken);
    if (measured.saved < said) {
      broken += fmt::format("step {} was saved, and the run continues from step {}\n", said,
                            measured.saved);
    }
    if (comes_to_its_end(cell) && measured.saved != kServedSteps)
      broken += fmt::format("there is no checkpoint of step {} that can be read\n", kServedSteps);
  } catch (const Error& error) {
    *late = error.kind() == ErrorKind::kNotFound;
    broken += error.message() + "\n";
  }
  if (!broken.empty()) measured.broken = cell.text() + ": " + broken + output;
  return measured;
}

}  // namespace

std::string ServedCell::text() const {
  return fmt::format("{} of {}, {}{}", blow_name(signal), task, phase,
                     restarts ? "" : ", without a restart");
}

bool ServedCell::possible() const {
  if (task == "launcher") return signal != kCutConnections;
  return task != "evaluator 0" || phase != "end" || signal == SIGKILL || signal == SIGSTOP;
}

const std::vector<std::string>& served_tasks() {
  static const std::vector<std::string> all = {"chief 0", "worker 0",    "ps 0",
                                               "ps 1",    "evaluator 0", "launcher"};
  return all;
}

const std::vector<std::string>& served_phases() {
  static const std::vector<std::string> all = {"start", "input",    "pull",   "push",
                                               "save",  "evaluate", "export", "end"};
  return all;
}

ServedMeasured strike(const ServedCell& cell) {
  return strike_in_time<ServedMeasured>([&](bool* late) { return strike_once(cell, late); });
}

}  // namespace muster::testing
