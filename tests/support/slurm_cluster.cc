#include "tests/support/slurm_cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/free_ports.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Long enough for a busy machine; an idle one needs 0.3 s.
constexpr auto kStartTime = 90s;
constexpr auto kEndTime = 30s;
// Between two looks at another process's work.
constexpr auto kPause = 20ms;

// Debian keeps the daemons where only the superuser's PATH looks.
std::string path_of(std::string_view name) {
  for (const std::string_view folder : {"/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/slurm"}) {
    const std::string path = fmt::format("{}/{}", folder, name);
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) throw from_errno(errno, "gethostname");
  const std::string whole = name.data();
  return whole.substr(0, whole.find('.'));
}

std::string user_name() {
  const passwd* user = getpwuid(geteuid());
  return user != nullptr ? user->pw_name : std::to_string(geteuid());
}

std::string node_name(int index) { return fmt::format("node{:02}", index + 1); }

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string slurm_conf(const SlurmCluster::Options& options, const std::string& directory) {
  const std::vector<int> ports = free_ports(options.nodes + 1);
  std::string text = fmt::format(R"(ClusterName=muster
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
PlugStackConfig={directory}/plugstack.conf
MailProg=/bin/true
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobRequeue=1
ReturnToService=2
KillWait={kill_wait}
SchedulerParameters=batch_sched_delay=0,sched_interval=1
)",
                                 fmt::arg("host", host_name()), fmt::arg("port", ports.front()),
                                 fmt::arg("user", user_name()), fmt::arg("directory", directory),
                                 fmt::arg("kill_wait", options.kill_wait_s));
  for (int i = 0; i < options.nodes; ++i) {
    text +=
        fmt::format("NodeName={} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs={}\n",
                    node_name(i), host_name(), ports.at(static_cast<size_t>(i) + 1), options.cpus);
  }
  text += "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
  return text + options.more + "\n";
}

}  // namespace

std::string SlurmCluster::why_not() {
  for (const char* name : {"slurmctld", "slurmd", "srun", "sbatch"}) {
    if (path_of(name).empty()) {
      return fmt::format(
          "{} is not installed (Debian's packages slurmctld, slurmd and slurm-client)", name);
    }
  }
  if (geteuid() != 0) return "slurmd works only as the superuser";
  return "";
}

SlurmCluster::SlurmCluster(const Options& options) {
  if (const std::string why = why_not(); !why.empty()) throw Error(ErrorKind::kUnavailable, why);
  environment_["SLURM_CONF"] = directory_ / "slurm.conf";
  // Another process can take a port between our look and the daemon's.
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    if (start(options)) return;
    const std::string said = logs();
    stop();
    if (said.find("Address already in use") == std::string::npos || i + 1 == kTries)
      throw Error(ErrorKind::kUnavailable, "no Slurm cluster came up; its daemons said:\n" + said);
  }
}

SlurmCluster::~SlurmCluster() {
  client({"scancel", "--signal=KILL", "--full", "--user=" + user_name()});
  client({"scancel", "--user=" + user_name()});
  const auto end = Clock::now() + kEndTime;
  while (Clock::now() < end && !client({"squeue", "--noheader"}).empty())
    std::this_thread::sleep_for(kPause);
  stop();
}

bool SlurmCluster::start(const Options& options) {
  std::filesystem::create_directories(directory_ / "state");
  std::ofstream(directory_ / "plugstack.conf").flush();
  std::ofstream(directory_ / "slurm.conf") << slurm_conf(options, directory_.path());
  // Newer versions of slurmd look for control groups although no plug-in here uses them, and a
  // container may have none. Older ones do not know the word.
  int version = 0;
  std::sscanf(client({"sinfo", "--version"}).c_str(), "%*[^0-9]%d", &version);
  if (version >= 24) std::ofstream(directory_ / "cgroup.conf") << "CgroupPlugin=disabled\n";
  daemons_.push_back(daemon({path_of("slurmctld"), "-D", "-c"}, "slurmctld.log"));
  for (int i = 0; i < options.nodes; ++i) {
    daemons_.push_back(
        daemon({path_of("slurmd"), "-D", "-N", node_name(i)}, node_name(i) + ".log"));
  }
  const auto end = Clock::now() + kStartTime;
  while (Clock::now() < end) {
    for (launch::ChildProcess& child : daemons_)
      if (child.status()) return false;
    int code = 0;
    std::istringstream states(client({"sinfo", "--noheader", "--Node", "--format=%T"}, &code));
    int idle = 0;
    for (std::string state; states >> state;) idle += state == "idle" ? 1 : 0;
    if (code == 0 && idle == options.nodes) return true;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

void SlurmCluster::stop() {
  for (launch::ChildProcess& child : daemons_) child.signal(SIGTERM);
  for (launch::ChildProcess& child : daemons_) child.wait_for(kEndTime);
  daemons_.clear();  // kills those that did not end
}

std::string SlurmCluster::logs() const {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    if (entry.path().extension() != ".log") continue;
    all += entry.path().filename().string() + ":\n" + text_of(entry.path().string());
  }
  return all;
}

launch::ChildProcess SlurmCluster::daemon(const std::vector<std::string>& command,
                                          const std::string& log) const {
  const FileDescriptor out(::open((directory_ / log).c_str(),
                                  O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
  if (!out.is_open()) throw from_errno(errno, "cannot open " + (directory_ / log));
  return launch::ChildProcess({.name = command.front(),
                               .argv = command,
                               .environment = {environment_.begin(), environment_.end()},
                               .out = out.get(),
                               .err = out.get(),
                               .group = launch::ChildSpec::Group::kOwn,
                               .dies_with_parent = true});
}

std::string SlurmCluster::client(const std::vector<std::string>& command, int* code) const {
  constexpr auto kDeadline = 30s;
  launch::ChildProcess child = daemon(command, "client.out");
  const auto status = child.wait_for(kDeadline);
  if (code != nullptr) *code = status && status->signal == 0 ? status->code : 1;
  return text_of(directory_ / "client.out");
}

}  // namespace muster::inline v0_1
