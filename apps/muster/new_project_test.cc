#include "apps/muster/new_project.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/muster/run_muster.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::app {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string read(const std::string& path) { return local_file_system().read_file(path).value(); }

TEST(NewProject, BearsItsName) {
  const TempDirectory dir;
  const NewProject made = write_new_project(dir / "deep/shapes-2");
  EXPECT_EQ(made.name, "shapes-2");
  EXPECT_EQ(made.folder, dir / "deep/shapes-2");
  for (const char* file :
       {"CMakeLists.txt", "README.md", ".gitignore", "Dockerfile", ".dockerignore", "src/main.cc",
        "src/model.cc", "src/input.cc", "tests/shapes-2_test.cc"}) {
    EXPECT_THAT(made.files, Contains(file));
  }
  EXPECT_EQ(made.files.size(), new_project_template().size());
  for (const std::string& file : made.files) {
    const std::string text = read(join_path(made.folder, file));
    EXPECT_THAT(text, Not(HasSubstr("my_project"))) << file;
    EXPECT_THAT(text, Not(HasSubstr("@"))) << file;
    EXPECT_TRUE(text.ends_with("\n")) << file;
  }
  EXPECT_THAT(read(made.folder + "/CMakeLists.txt"),
              AllOf(HasSubstr("project(shapes-2 "), HasSubstr("find_package(muster 0.")));
  // The program is only in the build folder: its --help says how to call it there.
  EXPECT_THAT(read(made.folder + "/src/main.cc"),
              AllOf(HasSubstr("\"  build/shapes-2 --epochs"), HasSubstr(" -- build/shapes-2 --"),
                    Not(HasSubstr("  shapes-2 ")), Not(HasSubstr(" -- shapes-2"))));
}

// Semicolons, brackets and backslashes survive on their way into the binary.
TEST(NewProject, IsWordForWordWhatIsInTheTree) {
  const char* source = std::getenv("MUSTER_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run this test through ctest";
  for (const TemplateFile& file : new_project_template()) {
    const std::string name = file.path.substr(file.path.starts_with('.') ? 1 : 0);
    std::string there = read(join_path(source, "apps/muster/new_project/" + name));
    const std::string version = "@MUSTER_VERSION@";
    if (const size_t at = there.find(version); at != std::string::npos) {
      const std::string before = there.substr(0, at), after = there.substr(at + version.size());
      EXPECT_TRUE(file.text.starts_with(before) && file.text.ends_with(after)) << name;
    } else {
      EXPECT_EQ(file.text, there) << name;
    }
  }
}

TEST(NewProject, LeavesWhatIsThereAlone) {
  const TempDirectory dir;
  FileSystem& files = local_file_system();
  files.make_directories(dir / "full").value();
  files.write_atomically(dir / "full/notes", std::string_view("mine")).value();
  const Error full = error_of([&] { write_new_project(dir / "full"); });
  EXPECT_EQ(full.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(full.message(), HasSubstr("/full is not empty: it holds 'notes'"));
  EXPECT_THAT(files.list_directory(dir / "full").value(), testing::ElementsAre("notes"));
  const Error file = error_of([&] { write_new_project(dir / "full/notes"); });
  EXPECT_THAT(file.message(), HasSubstr("notes is a file"));
  EXPECT_EQ(read(dir / "full/notes"), "mine");
  // An existing empty folder counts as none.
  files.make_directories(dir / "empty").value();
  EXPECT_FALSE(write_new_project(dir / "empty/").files.empty());
}

TEST(NewProject, ANameMustBeOne) {
  const TempDirectory dir;
  for (const char* name :
       {"9lives", "a b", "..", "x;y", "na\"me", "-x", "all", "muster", "torch"}) {
    const Error error = error_of([&] { write_new_project(dir / name); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << name;
    EXPECT_THAT(error.message(), HasSubstr(std::string("'") + name + "'"));
    EXPECT_NE(error.hint(), "") << name;
  }
  // CMake's and LibTorch's targets, in any case.
  for (const char* name :
       {"ALL_BUILD", "INSTALL", "preinstall", "RUN_TESTS", "Zero_Check", "CMakeFiles", "Testing",
        "c10", "C10_cuda", "torch_cpu", "torch_library", "TorchVision", "caffe2_nvrtc", "Muster"}) {
    const Error error = error_of([&] { write_new_project(dir / name); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << name;
    EXPECT_THAT(error.message(), HasSubstr("CMake or a library has that name")) << name;
    // The proposal of the hint can be used.
    EXPECT_EQ(error.hint(), std::string("take another, for example my_") + name);
  }
  EXPECT_EQ(error_of([&] { write_new_project(""); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { write_new_project(dir / std::string(65, 'a')); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_TRUE(local_file_system().list_directory(dir.path()).value().empty());
}

// As on a full disk: no file may grow past 1024 bytes. CMakeLists.txt does not, README.md does.
TEST(NewProject, AFailedWriteLeavesNothingBehind) {
  const TempDirectory dir;
  FileSystem& files = local_file_system();
  files.make_directories(dir / "empty").value();
  ASSERT_LE(new_project_template().front().text.size(), 1024u) << "written before the failure";
  for (const char* folder : {"deep/shapes", "empty"}) {
    const std::string limited = "trap '' XFSZ; ulimit -f 2; " + muster_line("new " + dir / folder);
    const ShellOutput ran = run_shell(limited);
    EXPECT_EQ(ran.code, 2) << ran.text;
    EXPECT_THAT(ran.text, HasSubstr("error: cannot write ")) << folder;
    EXPECT_THAT(files.list_directory(dir.path()).value(), testing::ElementsAre("empty"));
    EXPECT_THAT(files.list_directory(dir / "empty").value(), testing::IsEmpty());
    EXPECT_EQ(run_muster("new " + dir / folder).code, 0);
    files.remove_tree(dir / "deep").value();
  }
}

// A disk of 16 KiB that is really full.
TEST(NewProject, AFullDiskIsNamedAndLeftEmpty) {
  const TempDirectory dir;
  const std::string disk = dir / "disk";
  local_file_system().make_directories(disk).value();
  const std::string mounted = "mount -t tmpfs -o size=16k none " + disk;
  const auto on_the_disk = [&](const std::string& line) {
    return run_shell("unshare --mount sh -c '" + mounted + " && { " + line + "; }'");
  };
  // Only root may mount; for other users the test above covers a write that fails.
  if (on_the_disk("true").code != 0) GTEST_SKIP() << "needs the right to mount: run it as root";
  // First in its own folder, then in an existing one.
  for (const char* folder : {"/deep/shapes", "/shapes"}) {
    const ShellOutput ran =
        on_the_disk("mkdir " + disk + "/shapes; " + muster_line("new " + disk + folder) +
                    "; echo code $?; find " + disk + " -mindepth 1");
    EXPECT_THAT(ran.text, ::testing::ContainsRegex("error: cannot write [0-9]+ bytes to '" + disk +
                                                   folder + "/.*': No space left on device\n"));
    EXPECT_THAT(ran.text, HasSubstr("hint: free space on the disk"));
    EXPECT_TRUE(ran.text.ends_with("\ncode 2\n" + disk + "/shapes\n")) << ran.text;
  }
}

TEST(NewProject, TheNextCommandsFitTheInstallation) {
  const TempDirectory dir;
  FileSystem& files = local_file_system();
  const NewProject made{.folder = "shapes", .name = "shapes", .files = {"README.md"}};
  for (const char* library : {"lib", "lib64", "lib/x86_64-linux-gnu"}) {
    const std::string prefix = dir / "with blank " + std::to_string(std::string(library).size());
    files.make_directories(prefix + "/bin").value();
    files.make_directories(prefix + "/" + library + "/cmake/muster").value();
    files
        .write_atomically(prefix + "/" + library + "/cmake/muster/musterConfig.cmake",
                          std::string_view("#\n"))
        .value();
    const std::string text = describe(made, prefix + "/bin/muster");
    EXPECT_THAT(text, HasSubstr("-DCMAKE_PREFIX_PATH='" + prefix + "'")) << library;
    EXPECT_THAT(text, Not(HasSubstr("cmake --install")));
  }
  // A build folder: install it first.
  files.make_directories(dir / "build/release/bin").value();
  const std::string text = describe(made, dir / "build/release/bin/muster");
  EXPECT_THAT(text,
              HasSubstr("cmake --install " + dir / "build/release" + " --prefix $HOME/.local\n"));
  EXPECT_THAT(text, HasSubstr("cd shapes\n"));
  EXPECT_THAT(text, HasSubstr("-DCMAKE_PREFIX_PATH=$HOME/.local && cmake --build build\n"));
  EXPECT_THAT(text, HasSubstr("  build/shapes\n"));
}

}  // namespace
}  // namespace muster::app
