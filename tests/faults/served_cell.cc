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
// A run has seconds of work and waits for a lost task for at most 20 s, twice if that is the chief,
// and then the others.
constexpr auto kMostTime = 90s;

// The task that reports that the run has reached the phase: the struck one, if it reaches the phase
// itself.
std::string served_speaker(const ServedCell& cell) {
  if (cell.phase == "start") return cell.task;
  if (cell.phase == "evaluate") return "evaluator 0";
  return cell.task == "worker 0" && cell.phase != "save" ? cell.task : "chief 0";
}

Variables served_variables(const ServedCell& cell) {
  // Without a restart no task need be patient.
  return {{"FAULT_SERVED", cell.restarts ? "20" : "2"},
          {"FAULT_PHASE", cell.phase},
          {"FAULT_TASK", served_speaker(cell)},
          {"OMP_NUM_THREADS", "1"}};
}

pid_t process_of(const ServedCell& cell, const Program& program) {
  const size_t space = cell.task.find(' ');
  return program.task(cell.task.substr(0, space), std::stoi(cell.task.substr(space + 1)));
}

// Without a restart the run ends with the killed task, except for a worker and the evaluator,
// without which the others continue.
int served_code(const ServedCell& cell) {
  return cell.restarts || cell.signal == SIGSTOP ? 0 : 128 + cell.signal;
}

bool comes_to_its_end(const ServedCell& cell) {
  return served_code(cell) == 0 || cell.task == "worker 0" || cell.task == "evaluator 0";
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
  static const std::vector<std::string> all = {"start", "pull", "push", "save", "evaluate", "end"};
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
