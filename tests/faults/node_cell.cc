#include "tests/faults/node_cell.h"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/free_ports.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"
#include "tests/faults/cell.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kLast = 12;  // of the victim
constexpr const char* kTransport = "tcp";
// Longer than the silence of 6 s after which a launcher is taken for lost.
constexpr auto kLauncherStandsStill = 9s;
// The silence, the wait for a machine that does not come (--join-time, or 30 s before an elastic
// run starts without it), and two starts.
constexpr auto kMostNodeTime = 60s;

// The launchers of both machines.
class Machines {
 public:
  Machines(std::string model_dir, bool elastic)
      : model_dir_(std::move(model_dir)), elastic_(elastic), port_(free_port()) {}
  void start(size_t node, const Variables& environment = {}) {
    Variables all = environment;
    all["MUSTER_TRANSPORT"] = kTransport;
    if (elastic_) all["FAULT_AUDIT"] = "1";
    if (launchers_[node]) earlier_ += launchers_[node]->output();
    launchers_[node] = std::make_unique<Program>(
        muster_run({fmt::format("--nodes={}/{}", node, elastic_ ? "1:2" : "2"),
                    fmt::format("--rendezvous=127.0.0.1:{}", port_), "--restart=2",
                    "--survivor-time=2", "--join-time=15"},
                   {binary("fault_victim"), "--model_dir=" + model_dir_}),
        all);
  }
  Program& at(size_t node) { return *launchers_[node]; }
  std::string output() const {
    std::string all = earlier_;
    for (const auto& launcher : launchers_) {
      if (launcher) all += "--- a launcher:\n" + launcher->output();
    }
    return all;
  }

 private:
  const std::string model_dir_;
  const bool elastic_;
  const int port_;
  std::array<std::unique_ptr<Program>, 2> launchers_;
  std::string earlier_;  // of launchers that were started again
};

size_t node_of(const NodeCell& cell) { return cell.victim == "rendezvous" ? 0 : 1; }

// The exit code of the launcher of a machine, unless it is killed itself.
int expected(const NodeCell& cell, size_t node) {
  // The run continues without the machine, or without the worker.
  if (cell.elastic && node_of(cell) == 1 && (node == 0 || cell.victim == "worker")) return 0;
  // It runs again when the run is over, and finds no rendezvous.
  if (cell.elastic && cell.signal == SIGSTOP && cell.victim == "launcher" && cell.phase != "meet")
    return 138;
  if (cell.signal == SIGTERM) return cell.phase == "end" ? 0 : 128 + SIGTERM;
  // A launcher's tasks write to the disk that was full when it started them: the chief saves.
  if (cell.signal == kDiskFull && cell.phase == "meet") return cell.victim == "rendezvous" ? 2 : 0;
  return cell.signal == SIGKILL && cell.victim == "rendezvous" ? 138 : 0;
}

// Strikes, and waits until the blow is over.
void send(const NodeCell& cell, pid_t struck, std::optional<Brake>* brake) {
  switch (cell.signal) {
    case kCutConnections:
      return cut_connections(struck);
    case kDiskFull:
      return fill_disk(struck);
    case kTenTimesSlower:
      brake->emplace(struck);
      return;
    default:
      ::kill(struck, cell.signal);
  }
  if (cell.signal != SIGSTOP) return;
  // The blow itself: how long the launcher stands still decides whether it is taken for lost.
  std::this_thread::sleep_for(kLauncherStandsStill);
  ::kill(struck, SIGCONT);
}

// Starts both launchers, and waits until the run is in the phase. In "meet" one of them waits for
// the other one, which is started after the blow.
void come_to_phase(const NodeCell& cell, Machines& machines) {
  const Variables environment{{"FAULT_PHASE", cell.phase}, {"FAULT_TASK", "worker 0"}};
  const size_t struck = node_of(cell);
  if (cell.phase == "meet") {
    machines.start(struck, environment);
    return machines.at(struck).wait_for(struck == 0 ? "waiting for node 1"
                                                    : "waiting for the rendezvous");
  }
  for (const size_t node : {0, 1}) machines.start(node, environment);
  machines.at(0).wait_for("phase: " + cell.phase);
}

// Whether the launcher is killed, and ends with that.
bool dies(const NodeCell& cell, size_t node) {
  if (cell.signal != SIGKILL || cell.victim == "worker" || node != node_of(cell)) return false;
  return node == 0 || cell.elastic;
}

void check(const NodeCell& cell, const NodeMeasured& measured, std::string& broken) {
  const auto code = [&](size_t node) { return dies(cell, node) ? -SIGKILL : expected(cell, node); };
  // A machine that leaves an elastic run, or is lost, may hear in time that the run has ended well.
  const bool hears = cell.elastic && cell.victim == "launcher" && measured.launcher_code == 0;
  if (measured.rendezvous_code != code(0) || (measured.launcher_code != code(1) && !hears)) {
    broken += fmt::format("the exit codes are {} and {}, not {} and {}\n", measured.rendezvous_code,
                          measured.launcher_code, code(0), code(1));
  }
  if (!measured.same_bits)
    broken += cell.elastic ? "an example was not used once\n" : "other bits after resuming\n";
}

// At the end, as NodeMeasured::same_bits.
bool is_whole(const NodeCell& cell, const std::string& model) {
  if (!has_checkpoint(model, kLast)) return false;
  if (cell.elastic) return run({binary("muster"), "audit", model}).code == 0;
  return read_file(checkpoint_path(model, kLast)) == undisturbed(kTransport);
}

NodeMeasured strike_nodes_once(const NodeCell& cell, bool* late) {
  const TempDirectory directory;
  const std::string model = directory / "model";
  Machines machines(model, cell.elastic);
  NodeMeasured measured;
  std::string broken;
  try {
    come_to_phase(cell, machines);
    const size_t struck = node_of(cell), other = 1 - struck;
    std::vector<pid_t> processes = machines.at(struck).children();
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Brake> brake;
    const pid_t process =
        cell.victim == "worker" ? machines.at(1).task("worker", 1) : machines.at(struck).pid();
    send(cell, process, &brake);
    if (cell.phase == "meet") machines.start(other);
    if (cell.signal == SIGKILL && struck == 1 && !cell.elastic) {
      machines.at(1).wait();
      machines.start(1);
    }
    const int mine = machines.at(struck).wait(kMostNodeTime);
    const int others = machines.at(other).wait(kMostNodeTime);
    brake.reset();
    wait_until_gone(processes);
    measured.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    measured.rendezvous_code = struck == 0 ? mine : others;
    measured.launcher_code = struck == 0 ? others : mine;
    *late = measured.rendezvous_code == 0 && expected(cell, 0) != 0;
    if (!has_checkpoint(model, kLast)) {
      for (const size_t node : {0, 1}) machines.start(node);
      for (const size_t node : {0, 1}) (void)machines.at(node).wait(kMostNodeTime);
    }
    measured.same_bits = is_whole(cell, model);
    check(cell, measured, broken);
  } catch (const Error& error) {
    *late = error.kind() == ErrorKind::kNotFound;
    broken += error.message() + "\n";
  }
  if (!broken.empty()) measured.broken = cell.text() + ": " + broken + machines.output();
  return measured;
}

}  // namespace

std::string NodeCell::text() const {
  return fmt::format("{} of the {}, {}, two machines{}", blow_name(signal), victim, phase,
                     elastic ? ", elastic" : "");
}

bool NodeCell::possible() const {
  return victim != "worker" || (elastic && phase != "meet" && signal != kDiskFull);
}

const std::vector<std::string>& node_phases() {
  static const std::vector<std::string> all = {"meet", "start", "build",    "step",
                                               "save", "write", "evaluate", "end"};
  return all;
}

NodeMeasured strike(const NodeCell& cell) {
  return strike_in_time<NodeMeasured>([&](bool* late) { return strike_nodes_once(cell, late); });
}

}  // namespace muster::testing
