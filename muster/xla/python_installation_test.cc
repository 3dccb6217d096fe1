#include "muster/xla/python_installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::xla {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program that answers as a Python would.
class PythonInstallationTest : public ::testing::Test {
 protected:
  std::string program(const std::string& name, const std::string& script) {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    std::ofstream(path) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  TempDirectory folder_;
};

// The message of what the function throws.
template <typename Function>
std::string refusal(const Function& function) {
  try {
    function();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(PythonInstallationTest, ReadsTheAnswers) {
  const PythonInstallation python = ask_python(program(
      "py'thon 3",
      R"(printf '%s\n' /lib/libpython3.11.so.1.0 /usr 2.9.0+cpu 2.9.0 /usr/lib/python3 '/my env')"));
  EXPECT_EQ(python.library, "/lib/libpython3.11.so.1.0");
  EXPECT_EQ(python.home, "/usr");
  EXPECT_EQ(python.torch, "2.9.0+cpu");
  EXPECT_EQ(python.torch_xla, "2.9.0");
  EXPECT_THAT(python.search_path, ElementsAre("/usr/lib/python3", "/my env"));
  EXPECT_NO_THROW(check_packages(python, "2.9.1"));
}

TEST_F(PythonInstallationTest, SaysWhichProgramIsNoPython) {
  for (const std::string& name : {folder_.path() + "/none", program("fails", "exit 3\n")}) {
    EXPECT_THAT(
        refusal([&] { ask_python(name); }),
        AllOf(HasSubstr(name + " is not a Python that runs\n"), HasSubstr("set MUSTER_PYTHON")));
  }
}

TEST_F(PythonInstallationTest, NeedsASharedLibrary) {
  EXPECT_THAT(refusal([&] { ask_python(program("static", R"(printf '\n/usr\n2.9.0\n2.9.0\n')")); }),
              HasSubstr("static has no shared library libpython\ninstall it"));
}

TEST_F(PythonInstallationTest, NeedsThePackagesOfItsLibTorch) {
  const std::string fix =
      "\nmake an environment with the packages torch==2.9.0 and torch_xla==2.9.0, and set "
      "MUSTER_PYTHON to its python";
  const auto says = [](const std::string& torch, const std::string& torch_xla) {
    return refusal([&] {
      check_packages({.program = "py", .torch = torch, .torch_xla = torch_xla}, "2.9.0+cpu");
    });
  };
  EXPECT_EQ(says("", ""), "py lacks the package torch" + fix);
  EXPECT_EQ(says("2.9.0", ""), "py lacks the package torch_xla" + fix);
  EXPECT_EQ(says("2.10.0", "2.9.0"),
            "Muster is built with LibTorch 2.9.0+cpu, and py has torch 2.10.0" + fix);
  EXPECT_EQ(says("2.9.0", "2.8.1"),
            "Muster is built with LibTorch 2.9.0+cpu, and py has torch_xla 2.8.1" + fix);
}

}  // namespace
}  // namespace muster::inline v0_1::xla
