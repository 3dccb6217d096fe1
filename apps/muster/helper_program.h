// Finds the programs that link LibTorch, which the muster command starts instead of doing so
// itself. Thread safety: any thread.
#pragma once

#include <string>
#include <vector>

namespace muster::app {

// Where a helper is, or is not.
struct HelperProgram {
  std::string path;                    // empty: it is in none of the folders
  std::vector<std::string> looked_in;  // the folders it was not in
};

// Looks for the program `name` in `own_folder`, where the muster binary lies, and, as it is
// installed, in ../libexec/muster.
HelperProgram find_helper_program(const std::string& own_folder, const std::string& name);

}  // namespace muster::app
