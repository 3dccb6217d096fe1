// A Python of this machine, and whether it has the packages that devices of XLA need.
// Thread safety: a value; the functions may be called from any thread.
#pragma once

#include <string>
#include <vector>

namespace muster::inline v0_1::xla {

// The answers of a Python about itself.
struct PythonInstallation {
  std::string program{};                   // "python3", or a path
  std::string library{};                   // the path of its libpython
  std::string home{};                      // the folder of its standard library's prefix
  std::vector<std::string> search_path{};  // its sys.path: packages of a virtual environment too
  std::string torch{};                     // the version of the package; "" without it
  std::string torch_xla{};
};

// Runs the program once and asks it. Throws std::runtime_error if the program cannot be run or has
// no libpython. The message has a second line: what to do.
PythonInstallation ask_python(const std::string& program);

// Throws std::runtime_error, with a second line as above, unless the Python has torch and torch_xla
// with the major and minor version of `libtorch`, such as "2.9.0": the process has one LibTorch,
// which both sides use.
void check_packages(const PythonInstallation& python, const std::string& libtorch);

}  // namespace muster::inline v0_1::xla
