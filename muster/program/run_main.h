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

// The text of --help besides the flags, and which flags the program has.
struct ProgramOptions {
  std::string description{};  // first lines of --help
  std::string examples{};     // last lines of --help
  Flags defaults{};
  // Names of the shared flags that the program uses ("epochs"); it does not accept the others.
  // Empty: all.
  std::vector<std::string> uses{};
  // Names of the shared flags that a user must give ("data_dir"); their defaults are not used. For
  // the program's own flags set Flag::required.
  std::vector<std::string> required{};
  // Whether the program has shared flags.
  bool shared_flags = true;
  // The name of the program in --help; empty: the last part of its path.
  std::string name{};
  // Positional arguments, in order. Each may be left out; the program checks them.
  std::vector<Flag> arguments{};
  // Flags of the program's own, for example {{"hidden_units", &hidden_units, "Width of a layer"}}.
  // Their variables are set before the program is called.
  std::vector<Flag> flags{};
};

// Parses the flags, installs handlers of SIGINT, SIGTERM and SIGUSR1 (training then saves and
// ends), calls `program`, and prints the error it throws. Returns the exit code: 0 done; 1 Corrupt,
// NonFinite, Internal; 2 InvalidArgument, NotFound, wrong or missing flags; 138 PeerLost, Timeout,
// Unavailable ("please restart me"); 143 stopped by SIGTERM, 130 by Ctrl-C, 138 by SIGUSR1, after
// saving.
//
// All programs also have --log_format. --job-dir, which some cluster services add to the arguments,
// means --model_dir, unless that is given or the program has a flag --job-dir. A mistake in
// `options` (a name twice, or an unknown shared flag) is an InvalidArgument. SIGPIPE and SIGXFSZ
// are ignored: a closed stdout does not end the program, and a file beyond `ulimit -f` is an error
// as on a full disk. Standard output is written line by line, wherever it goes. Uncaught errors of
// other threads, and errors where nothing can be thrown, such as the end of a chief's scope, are
// also printed and set the exit code. In a pod of Kubeflow that asks for several processes
// (PET_NPROC_PER_NODE), it starts them, as torchrun would.
//
// Call it first in main(): a process with several OpenMP threads re-executes itself here (with the
// same PID) to set GOMP_SPINCOUNT, unless that or OMP_WAIT_POLICY is set already.
MUSTER_EXPORT int run_main(int argc, char** argv, const std::function<void(const Flags&)>& program,
                           const ProgramOptions& options = {});

// For a main() of your own, which calls it first. SIGINT, SIGTERM and SIGUSR1 make training save
// and then throw Cancelled. An uncaught exception is printed as by run_main() and ends the process
// with that exit code, instead of an abort (134). Standard output is written line by line. Such an
// exit runs no destructors; if you need them, catch muster::Error in main() and return
// exit_code(error.kind()).
MUSTER_EXPORT void guard_main();

// Prints one line for programs to standard output; "global_step" and "loss" come first:
//   result: {"global_step":1406,"loss":0.0604,"accuracy":0.9812}
// Throws InvalidArgument if the line cannot be written, for example to a file on a full disk, but
// not if the reader has closed the pipe.
MUSTER_EXPORT void print_result(const std::map<std::string, double>& metrics);

}  // namespace muster::inline v0_1
