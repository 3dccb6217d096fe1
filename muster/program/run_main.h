// The main() of a training program: flags, signals, errors to exit codes.
// Thread safety: call it once, from main.
//
//   int main(int argc, char** argv) {
//     return muster::run_main(argc, argv, [](const muster::Flags& flags) { ... });
//   }
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/command/flag.h"
#include "muster/command/shared_flags.h"

namespace muster::inline v0_1 {

// What --help says besides the flags, and their defaults.
struct ProgramOptions {
  std::string description{};  // first lines of --help
  std::string examples{};     // last lines of --help
  Flags defaults{};
  // Names of the shared flags the program reads ("epochs"); the others are no flags of it. Empty:
  // all.
  std::vector<std::string> uses{};
  // Names of those shared flags that must be given ("data_dir"), so that their defaults do not
  // count; Flag::required says so of the program's own.
  std::vector<std::string> required{};
  // Whether there are shared flags at all; false: none.
  bool shared_flags = true;
  // What --help calls the program; empty: the last word of its path.
  std::string name{};
  // Words without flags, in their order. Each may be left out; the program checks them.
  std::vector<Flag> arguments{};
  // Flags of the program's own, for example {{"hidden_units", &hidden_units, "Width of a layer"}}.
  // Their variables are set before the program is called.
  std::vector<Flag> flags{};
};

// Parses the flags (all programs have --log_format besides; --job-dir, which clusters add to the
// arguments, is --model_dir where neither that is given nor the program has such a flag), installs
// the handlers of SIGINT, SIGTERM and SIGUSR1 (training then saves and ends), calls `program`,
// prints what it throws. Returns the exit code: 0 done; 1 Corrupt, NonFinite, Internal; 2
// InvalidArgument, NotFound, wrong flags and required ones that are missing; 138 PeerLost, Timeout,
// Unavailable ("please restart me"); 143 stopped by SIGTERM, 130 by Ctrl-C, 138 by SIGUSR1, after
// saving. What is wrong in `options` (a name twice, or one that is no shared flag) is an
// InvalidArgument too. A reader of its output that leaves does not end the program. Standard output
// is written line by line, wherever it goes. What nobody catches on a thread of its own, and what
// fails where nothing can be thrown, as at the end of a chief's scope, is printed too and has its
// exit code. In a pod of
// Kubeflow that shall run several processes (PET_NPROC_PER_NODE) it starts them, as torchrun would.
// Do nothing before it: a process with several OpenMP threads starts once more from here (the same
// process number), with GOMP_SPINCOUNT set, unless that or OMP_WAIT_POLICY is set already.
MUSTER_EXPORT int run_main(int argc, char** argv, const std::function<void(const Flags&)>& program,
                           const ProgramOptions& options = {});

// For a main() of one's own, which calls it first: SIGINT, SIGTERM and SIGUSR1 make training save
// and then throw Cancelled, and an exception that nobody catches is printed as run_main() prints it
// and ends the process with that exit code, where it would have been an abort (134). Standard
// output is written line by line. Nothing but this call installs it. What is uncaught ends the
// process without destructors; a main() that wants them catches muster::Error itself, and returns
// exit_code(error.kind()).
MUSTER_EXPORT void guard_main();

// One line on standard output, for programs; "global_step" and "loss" come first:
//   result: {"global_step":1406,"loss":0.0604,"accuracy":0.9812}
// Throws InvalidArgument where it cannot be written, as into a file on a full disk; not where
// nobody reads it any more.
MUSTER_EXPORT void print_result(const std::map<std::string, double>& metrics);

}  // namespace muster::inline v0_1
