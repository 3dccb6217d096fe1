#include "muster/xla/python_installation.h"

#include <sys/wait.h>

#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace muster::inline v0_1::xla {
namespace {

// Asked of the program. It does not import the packages, which would take seconds.
constexpr const char* kQuestions = R"(
import importlib.metadata, os, sys, sysconfig
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
folder = sysconfig.get_config_var("LIBDIR") or ""
multiarch = sysconfig.get_config_var("MULTIARCH") or ""
name = sysconfig.get_config_var("INSTSONAME") or ""
files = [os.path.join(folder, name), os.path.join(folder, multiarch, name)]
print(next((file for file in files if name.startswith("libpython") and ".so" in name and os.path.exists(file)), ""))
print(sys.base_prefix)
print(version("torch"))
print(version("torch_xla"))
print("\n".join(path for path in sys.path if path))
)";

std::string quoted_for_shell(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// "2.9" of "2.9.0+cpu".
std::string minor_version(const std::string& version) {
  const size_t first = version.find('.');
  return version.substr(0, version.find('.', first + 1));
}

// "2.9.0" of "2.9.0+cpu": torch_xla has no such endings.
std::string plain_version(const std::string& version) {
  return version.substr(0, version.find('+'));
}

// The answer of the program to the questions. Throws std::runtime_error if it cannot be run.
std::string run(const std::string& program) {
  const std::string command =
      quoted_for_shell(program) + " -c " + quoted_for_shell(kQuestions) + " 2>/dev/null";
  FILE* const pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + program);
  std::string output;
  for (char bytes[4096]; const size_t count = fread(bytes, 1, sizeof(bytes), pipe);)
    output.append(bytes, count);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  throw std::runtime_error(program +
                           " is not a Python that runs\nset MUSTER_PYTHON to the python of an "
                           "environment with torch and torch_xla");
}

}  // namespace

PythonInstallation ask_python(const std::string& program) {
  std::istringstream lines(run(program));
  PythonInstallation python{.program = program};
  std::getline(lines, python.library);
  std::getline(lines, python.home);
  std::getline(lines, python.torch);
  std::getline(lines, python.torch_xla);
  for (std::string path; std::getline(lines, path);) python.search_path.push_back(path);
  if (python.library.empty()) {
    throw std::runtime_error(program +
                             " has no shared library libpython\ninstall it (Debian: "
                             "libpython3-dev), or use a Python that was built with "
                             "--enable-shared");
  }
  return python;
}

void check_packages(const PythonInstallation& python, const std::string& libtorch) {
  const std::string wanted = minor_version(libtorch);
  const std::string version = plain_version(libtorch);
  const std::string fix = "make an environment with the packages torch==" + version +
                          " and torch_xla==" + version + ", and set MUSTER_PYTHON to its python";
  for (const auto& [name, found] :
       {std::pair{"torch", &python.torch}, std::pair{"torch_xla", &python.torch_xla}}) {
    if (found->empty())
      throw std::runtime_error(python.program + " lacks the package " + name + "\n" + fix);
    if (minor_version(*found) != wanted) {
      throw std::runtime_error("Muster is built with LibTorch " + libtorch + ", and " +
                               python.program + " has " + name + " " + *found + "\n" + fix);
    }
  }
}

}  // namespace muster::inline v0_1::xla
