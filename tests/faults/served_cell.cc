#include "tests/faults/served_cell.h"

#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "muster/base/error.h"
#include "muster/launch/exit_status.h"
#include "tests/end_to_end/program.h"

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

Variables served_variables(const ServedCell& cell) {
  // Without a restart nobody need be patient.
  return {{"FAULT_SERVED", cell.restarts ? "20" : "2"},
          {"FAULT_PHASE", cell.phase},
          {"FAULT_TASK", served_speaker(cell)},
          {"OMP_NUM_THREADS", "1"}};
}

pid_t process_of(const ServedCell& cell, const Program& program) {
  if (cell.task == "launcher") return program.pid();
  const size_t space = cell.task.find(' ');
  return program.task(cell.task.substr(0, space), std::stoi(cell.task.substr(space + 1)));
}

// Without a restart the run ends with the one that was killed, except for a worker and the
// evaluator, without whom the others go on.
int served_code(const ServedCell& cell) {
  if (cell.signal == SIGTERM) {
    // At its end a worker has nothing left to stop. A stopped task is not started again.
    const bool trains = cell.task == "chief 0" || cell.task == "worker 0";
    return cell.phase == "end" && trains ? 0 : 128 + SIGTERM;
  }
  return cell.restarts || cell.signal == SIGSTOP ? 0 : 128 + cell.signal;
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

// A chief that is asked to stop saves its steps, or has saved the last one and waits for the
// evaluator.
bool says_that_it_has_saved(const std::string& output) {
  return output.find("stopped by SIGTERM after saving step") != std::string::npos ||
         (output.find(fmt::format("model.ckpt-{}\n", kServedSteps)) != std::string::npos &&
          output.find(fmt::format("evaluated step {}, the last one", kServedSteps)) !=
              std::string::npos);
}

// `late`: the run ended well before it was struck.
std::string broken_once(const ServedCell& cell, bool& late) {
  late = false;
  const TempDirectory directory;
  const Words victim = {binary("fault_victim"), "--model_dir=" + directory / "model"};
  std::string broken, output;
  try {
    Words options = {"--chief", "--workers=1", "--ps=2", "--evaluator"};
    if (cell.restarts) options.emplace_back("--restart=2");
    Program program(muster_run(options, victim), served_variables(cell));
    program.wait_for("phase: " + cell.phase);
    const pid_t struck = process_of(cell, program);
    ::kill(struck, cell.signal);
    if (cell.signal == SIGSTOP) {
      std::this_thread::sleep_for(kStandsStill);
      ::kill(struck, SIGCONT);
    }
    const int code = program.wait(kMostTime);
    output = program.output();
    late = code == 0 && served_code(cell) != 0;
    if (code != served_code(cell))
      broken += fmt::format("the exit code is {}, not {}\n", code, served_code(cell));
    if (saves_on_request(cell) && !says_that_it_has_saved(output))
      broken += "the chief does not say that it has saved\n";
    if (comes_to_its_end(cell)) {
      // Alone, with the steps made, it reads the checkpoint and says so.
      const Ran again = run(victim, {{"FAULT_SERVED", "1"}});
      output += "--- again:\n" + again.output;
      if (again.code != 0 || again.output.find(fmt::format("the checkpoint is at step {}",
                                                           kServedSteps)) == std::string::npos)
        broken += fmt::format("there is no checkpoint of step {} that can be read\n", kServedSteps);
    }
  } catch (const Error& error) {
    late = error.kind() == ErrorKind::kNotFound;  // there is no such task any more
    broken += error.message() + "\n";
  }
  return broken.empty() ? "" : cell.text() + ": " + broken + output;
}

}  // namespace

std::string ServedCell::text() const {
  return fmt::format("{} of {}, {}{}", launch::signal_name(signal), task, phase,
                     restarts ? "" : ", without a restart");
}

const std::vector<std::string>& served_tasks() {
  static const std::vector<std::string> all = {"chief 0", "worker 0", "ps 0", "ps 1",
                                               "evaluator 0"};
  return all;
}

const std::vector<std::string>& served_phases() {
  static const std::vector<std::string> all = {"start", "input",    "pull",   "push",
                                               "save",  "evaluate", "export", "end"};
  return all;
}

std::string broken(const ServedCell& cell) {
  // As in strike(): a busy machine may let this process stand still meanwhile.
  constexpr int kAttempts = 5;
  std::string text;
  bool late = true;
  for (int attempt = 0; attempt < kAttempts && late; ++attempt) text = broken_once(cell, late);
  return text;
}

}  // namespace muster::testing
