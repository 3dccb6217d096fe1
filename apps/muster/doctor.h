// `muster doctor` says what this installation can do. Facts are gathered first, by this process and
// by muster-probe, which links LibTorch. They are judged then, by a pure function. Thread safety:
// values; gathering is for one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/network_interfaces.h"
#include "muster/launch/run.h"
#include "muster/launch/subprocess.h"

namespace muster::app {

using Addresses = std::vector<std::string>;

struct MachineFacts {
  launch::Machine cores{};
  uint64_t memory = 0;            // bytes
  uint64_t memory_available = 0;  // bytes
  uint64_t memory_limit = 0;      // bytes, of the container or service; 0 without one
  uint64_t open_files = 0;        // the soft limit; 0 without one
  std::vector<NetworkInterface> interfaces{};
  std::string host_name{};
  // The addresses of this host's name and of every host in TF_CONFIG. An unknown host has none; one
  // that could not be looked up in time has no entry.
  std::map<std::string, Addresses> hosts{};
};

struct ProbeFacts {
  std::vector<std::string> looked_in{};  // folders, when there is no probe to start
  std::string path{};                    // empty: not found
  std::optional<Error> not_started{};
  std::optional<launch::CompletedProcess> ran{};
  double deadline = 0;        // seconds
  std::string doing{};        // its activity when it ended; empty if it printed none
  nlohmann::json facts = {};  // an object; see apps/probe/main.cc
};

struct DoctorFacts {
  std::string version{};  // of the muster command
  Environment environment{};
  MachineFacts machine{};
  ProbeFacts probe{};
};

enum class Level { kOk, kNote, kWarning, kProblem };
// Returns "ok", "note", "warning" or "problem".
std::string_view to_string(Level level);

struct Finding {
  Level level = Level::kOk;
  std::string name{};                  // "BLAS"
  std::string text{};                  // one line
  std::string fix{};                   // what to do; never empty for a warning or a problem
  std::vector<std::string> details{};  // lines, such as where a library lies
};

// Gathers the facts of this machine. It blocks for about three seconds at most, while it looks up
// names of hosts.
MachineFacts gather_machine(const Environment& environment);
// Returns the result of `resolve` for each host, without the hosts for which it did not answer
// within `deadline`. It asks for at most sixteen at a time, each in a thread of its own, which may
// outlive this call because a look-up cannot be stopped.
std::map<std::string, Addresses> look_up(const std::set<std::string>& hosts,
                                         std::function<Addresses(const std::string&)> resolve,
                                         std::chrono::milliseconds deadline);
// Looks for muster-probe in `own_folder` and, as it is installed, in ../libexec/muster; runs it for
// at most `deadline`.
ProbeFacts gather_probe(const std::string& own_folder, std::chrono::milliseconds deadline);

// Judges all facts, in the order in which the findings are shown. These three are pure functions.
std::vector<Finding> judge(const DoctorFacts& facts);
std::vector<Finding> judge_probe(const DoctorFacts& facts);    // LibTorch and the libraries that
                                                               // programs link
std::vector<Finding> judge_machine(const DoctorFacts& facts);  // cores, memory, network
std::vector<Finding> judge_environment(const DoctorFacts& facts);
// Judges the BLAS that the probe with these facts has used.
Finding judge_blas(const nlohmann::json& probe, const Environment& environment);
// How to link programs with `muster::fast_allocator`.
inline constexpr const char* kLinkHint =
    "find_package(muster) and muster::fast_allocator link it where it is installed";
// The name of a file, without its folder.
inline std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Returns 1 when there is a problem, else 0.
int doctor_exit_code(const std::vector<Finding>& findings);
// Returns a line for each finding, with remedies and details below it, and a summary at the end.
std::string doctor_text(const std::vector<Finding>& findings, bool color);
nlohmann::json doctor_json(const std::vector<Finding>& findings, const DoctorFacts& facts);

}  // namespace muster::app
