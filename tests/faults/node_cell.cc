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
// The silence, the wait for a machine that does not come (--join-time), and two starts.
constexpr auto kMostNodeTime = 60s;

// The launchers of both machines.
class Machines {
 public:
  explicit Machines(const std::string& model_dir) : model_dir_(model_dir), port_(free_port()) {}
  void start(size_t node, const Variables& environment = {}) {
    Variables all = environment;
    all["MUSTER_TRANSPORT"] = kTransport;
    if (launchers_[node]) earlier_ += launchers_[node]->output();
    launchers_[node] =
        std::make_unique<Program>(muster_run({fmt::format("--nodes={}/2", node),
                                              fmt::format("--rendezvous=127.0.0.1:{}", port_),
                                              "--restart=2", "--survivor-time=2", "--join-time=15"},
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
  const int port_;
  std::array<std::unique_ptr<Program>, 2> launchers_;
  std::string earlier_;  // of launchers that were started again
};

size_t node_of(const NodeCell& cell) { return cell.victim == "rendezvous" ? 0 : 1; }

// The exit code that both have, except one that is killed.
int expected(const NodeCell& cell) {
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

void check(const NodeCell& cell, const NodeMeasured& measured, std::string& broken) {
  const bool dies = cell.signal == SIGKILL && cell.victim == "rendezvous";
  const int first = dies ? -SIGKILL : expected(cell);
  if (measured.rendezvous_code != first || measured.launcher_code != expected(cell)) {
    broken += fmt::format("the exit codes are {} and {}, not {} and {}\n", measured.rendezvous_code,
                          measured.launcher_code, first, expected(cell));
  }
  if (!measured.same_bits) broken += "other bits after resuming\n";
}

NodeMeasured strike_nodes_once(const NodeCell& cell, bool* late) {
  const TempDirectory directory;
  const std::string model = directory / "model";
  Machines machines(model);
  NodeMeasured measured;
  std::string broken;
  try {
    come_to_phase(cell, machines);
    const size_t struck = node_of(cell), other = 1 - struck;
    std::vector<pid_t> processes = machines.at(struck).children();
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Brake> brake;
    send(cell, machines.at(struck).pid(), &brake);
    if (cell.phase == "meet") machines.start(other);
    if (cell.signal == SIGKILL && struck == 1) {
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
    *late = measured.rendezvous_code == 0 && expected(cell) != 0;
    if (!has_checkpoint(model, kLast)) {
      for (const size_t node : {0, 1}) machines.start(node);
      for (const size_t node : {0, 1}) (void)machines.at(node).wait(kMostNodeTime);
    }
    measured.same_bits = has_checkpoint(model, kLast) &&
                         read_file(checkpoint_path(model, kLast)) == undisturbed(kTransport);
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
  return fmt::format("{} of the {}, {}, two machines", blow_name(signal), victim, phase);
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
