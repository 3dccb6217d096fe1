#include "tests/faults/cell.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "muster/base/error.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(2);
constexpr auto kGiveUp = std::chrono::seconds(100);
constexpr int64_t kLastStep = 12;  // of the victim

// The process that says that the run has come to the phase: the victim, if it comes to it itself.
int speaker_of(const Cell& cell) {
  const bool chief_alone = cell.phase == "save" || cell.phase == "write" ||
                           cell.phase == "evaluate" || cell.phase == "export";
  return cell.victim == "worker" && !chief_alone ? 1 : 0;
}

// "worker 1"; "" when it is the launcher.
std::string struck_task(const Cell& cell) {
  if (cell.victim == "launcher") return "";
  return cell.victim == "chief" ? "worker 0" : "worker 1";
}

// Waits until the run is in the phase: the speaker says so, of the phase "connect" in its log.
void wait_for_phase(const Cell& cell, Program& program) {
  const std::string speaker = fmt::format("[worker {}] ", speaker_of(cell));
  if (cell.phase != "connect") return program.wait_for(speaker + "phase: " + cell.phase);
  const auto said = [&] {
    std::istringstream lines(program.output());
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(speaker) && line.find("joined; connecting") != std::string::npos)
        return true;
    }
    return false;
  };
  const auto end = Clock::now() + kGiveUp;
  while (!said()) {
    if (Clock::now() >= end || !program.running())
      throw Error(ErrorKind::kTimeout, "the tasks did not join; printed:\n" + program.output());
    std::this_thread::sleep_for(kLook);
  }
}

Words command(const std::string& model_dir) {
  return muster_run({"--workers=2"}, {binary("fault_victim"), "--model_dir=" + model_dir});
}

Variables variables(const Cell& cell, const std::string& trigger) {
  const bool itself = strikes_itself(cell.signal);
  return {{"FAULT_TRIGGER", itself ? trigger : ""},
          {"FAULT_BLOW", itself ? blow_name(cell.signal) : ""},
          {"FAULT_STRUCK", struck_task(cell)},
          {"MUSTER_TRANSPORT", cell.transport},
          {"MUSTER_LOG_LEVEL", cell.phase == "connect" ? "debug" : "info"},
          {"FAULT_PHASE", cell.phase},
          {"FAULT_TASK", fmt::format("worker {}", speaker_of(cell))}};
}

// Waits until none of them is alive; false when it takes too long.
bool gone(const std::vector<pid_t>& processes) {
  const auto end = Clock::now() + kGiveUp;
  while (std::any_of(processes.begin(), processes.end(), alive)) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

// Strikes when the run is in the phase. For the phase "connect" the task that is not
// struck stands still meanwhile, so that the other cannot be done with it.
void send(const Cell& cell, const Program& program, const std::string& trigger,
          std::optional<Brake>* brake) {
  const auto task = [&](int index) { return program.task("worker", index); };
  const pid_t struck =
      cell.victim == "launcher" ? program.pid() : task(cell.victim == "chief" ? 0 : 1);
  if (cell.phase == "join") std::this_thread::sleep_for(300ms);
  const pid_t other = cell.phase == "connect" ? task(cell.victim == "worker" ? 0 : 1) : 0;
  if (other != 0) ::kill(other, SIGSTOP);
  if (strikes_itself(cell.signal)) {
    write_file(trigger, "");
  } else if (cell.signal == kTenTimesSlower) {
    brake->emplace(struck);
  } else {
    ::kill(struck, cell.signal);
  }
  if (other == 0) return;
  std::this_thread::sleep_for(200ms);
  ::kill(other, SIGCONT);
}

// Until all have joined, only kJoinSeconds ends the wait for a task that stands still.
double bound_of(const Cell& cell) {
  const bool joining = cell.phase == "start" || cell.phase == "join";
  const bool waits = cell.signal == SIGSTOP && cell.victim != "launcher" && joining;
  // One that is slower loads its libraries, and makes each step, in ten times the time.
  return kBound + (waits || cell.signal == kTenTimesSlower ? kJoinSeconds : 0);
}

int expected_code(const Cell& cell) {
  const bool launcher = cell.victim == "launcher";
  // A task that is slow costs nothing but time. Connections that close before all have joined are
  // made again.
  if (cell.signal == kTenTimesSlower || cell.signal == kCutConnections) return 0;
  // The chief alone writes. In the phase "end" the first part of the training ends: a save follows.
  if (cell.signal == kDiskFull) return cell.victim == "chief" ? 2 : 0;
  if (cell.signal == SIGKILL) return launcher ? -SIGKILL : 137;
  // At the end there is nothing left to stop.
  if (cell.signal == SIGTERM) return cell.phase == "end" ? 0 : 143;
  return launcher ? 0 : 138;
}

std::vector<std::string> broken_of(const Cell& cell, const Measured& measured) {
  std::vector<std::string> broken;
  if (measured.seconds > bound_of(cell))
    broken.push_back(fmt::format("it took {:.1f} s until all had ended", measured.seconds));
  // Connections of tasks that have joined are not made again: then the others name the task.
  const bool cut = cell.signal == kCutConnections;
  if (measured.code != expected_code(cell) && !(cut && measured.code == 138)) {
    broken.push_back(
        fmt::format("the exit code is {}, not {}", measured.code, expected_code(cell)));
  }
  const std::string guilty = struck_task(cell);
  const std::string named = measured.named.text();
  if (named != "-" && named != guilty) broken.push_back("named: " + named);
  if (named == "-" && !guilty.empty() && measured.code != 0) broken.push_back("nobody is named");
  if (!measured.same_bits) broken.push_back("other bits after resuming");
  return broken;
}

Measured strike_once(const Cell& cell) {
  const TempDirectory directory;
  const std::string model = directory / "model";
  Measured measured;
  {
    const std::string trigger = directory / "trigger";
    Program program(command(model), variables(cell, trigger));
    wait_for_phase(cell, program);
    const bool stops_launcher = cell.victim == "launcher" && cell.signal == SIGSTOP;
    // A launcher that stands still cannot end, nor can the child that looks after its tasks; they
    // can.
    std::vector<pid_t> processes =
        stops_launcher ? std::vector{program.task("worker", 0), program.task("worker", 1)}
                       : program.children();
    if (!stops_launcher) processes.push_back(program.pid());
    const auto begin = Clock::now();
    std::optional<Brake> brake;
    send(cell, program, trigger, &brake);
    const bool ended = gone(processes);
    measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    brake.reset();
    if (stops_launcher) program.signal(SIGCONT);
    if (!ended) program.signal(SIGKILL);
    measured.code = program.wait();
    measured.output = program.output();
  }
  measured.named = named_in(measured.output, struck_task(cell));
  const Ran rest = run(command(model), {{"MUSTER_TRANSPORT", cell.transport}});
  measured.same_bits =
      rest.code == 0 && read_file(checkpoint_path(model, kLastStep)) == undisturbed(cell.transport);
  measured.broken = broken_of(cell, measured);
  if (!measured.same_bits) measured.output += "--- resumed:\n" + rest.output;
  return measured;
}

}  // namespace

std::string Cell::text() const {
  return fmt::format("{} of the {}, {}, {}", blow_name(signal), victim, phase, transport);
}

bool Cell::possible() const { return victim != "launcher" || !strikes_itself(signal); }

const std::string& undisturbed(const std::string& transport) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& bytes = known[transport];
  if (bytes.empty()) {
    const TempDirectory directory;
    const Ran ran = run(command(directory / "model"), {{"MUSTER_TRANSPORT", transport}});
    bytes = read_file(checkpoint_path(directory / "model", kLastStep));
    if (ran.code != 0 || bytes.empty())
      throw internal_error("the run that nobody disturbs failed: " + ran.output);
  }
  return bytes;
}

const std::vector<std::string>& phases() {
  static const std::vector<std::string> all = {"start",    "join",   "connect", "build",
                                               "input",    "step",   "save",    "write",
                                               "evaluate", "export", "end"};
  return all;
}

Measured strike(const Cell& cell) {
  return strike_in_time<Measured>([&](bool* late) {
    Measured measured = strike_once(cell);
    *late = measured.code == 0 && expected_code(cell) != 0;
    return measured;
  });
}

}  // namespace muster::testing
