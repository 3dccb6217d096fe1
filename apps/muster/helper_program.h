// Finds the programs that link LibTorch, or submit jobs, which the muster command starts instead of
// doing so itself. Thread safety: any thread.
#pragma once

#include <string>
#include <vector>

namespace muster::app {

// Where a helper is, or is not.
struct HelperProgram {
  std::string path{};                    // empty: it is in none of the folders
  std::vector<std::string> looked_in{};  // the folders it was not in
};

// Looks for the program `name` in `own_folder`, the folder of the muster binary, and, as it is
// installed, in ../libexec/muster.
HelperProgram find_helper_program(const std::string& own_folder, const std::string& name);

// A helper that a sub-command becomes.
struct HelperCommand {
  std::string name{};     // "muster-serve"
  std::string what{};     // "which loads LibTorch and the model", for the error that it is missing
  std::string command{};  // "serve": the words after it are the helper's
};

// A program that `muster` becomes.
struct OtherProgram {
  std::string name{};  // "muster-jobs"
  std::string what{};  // "which has the commands for jobs", for the error that it is missing
};

// Converts and shows models.
inline const OtherProgram kModelProgram{.name = "muster-model",
                                        .what = "which loads LibTorch and ONNX"};

// Replaces this process by the program, with these arguments: signals and the exit code are then
// its own. Throws NotFound if the program does not exist, and the errors of starting a program; it
// does not return.
[[noreturn]] void become_program(const OtherProgram& program,
                                 const std::vector<std::string>& arguments,
                                 const std::string& own_folder);

// Replaces this process by the program that links LibTorch: signals and the exit code are then its
// own. `words` are the arguments of the command line, without the program's name. Throws NotFound
// if the program does not exist, and the errors of starting a program; it does not return.
[[noreturn]] int become_helper(const HelperCommand& helper, const std::vector<std::string>& words,
                               const std::string& own_folder);

}  // namespace muster::app
