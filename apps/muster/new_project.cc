#include "apps/muster/new_project.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "apps/muster/install_prefix.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/launch/run.h"

namespace muster::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPlaceholder = "my_project";

std::string named(std::string text, const std::string& name) {
  for (size_t at = text.find(kPlaceholder); at != std::string::npos;
       at = text.find(kPlaceholder, at + name.size())) {
    text.replace(at, kPlaceholder.size(), name);
  }
  return text;
}

// CMake, its generators, or libraries that a project links have targets, files or variables of
// these names. They are compared in lower case, because Xcode's and Visual Studio's are in
// capitals.
const std::set<std::string> kTaken = {
    "all",       "all_build",  "clean",   "cmake",          "cmakefiles", "cuda_target",
    "dummy",     "edit_cache", "gflags",  "help",           "install",    "makefile",
    "mimalloc",  "muster",     "package", "package_source", "preinstall", "rebuild_cache",
    "run_tests", "test",       "testing", "zero_check"};
// LibTorch's targets begin with these words and differ from version to version: torch_cpu,
// c10_cuda, caffe2_nvrtc.
constexpr std::string_view kTakenBeginnings[] = {"torch", "c10", "caffe2"};

bool is_taken(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return kTaken.contains(name) ||
         std::ranges::any_of(kTakenBeginnings, [&](auto it) { return name.starts_with(it); });
}

void check_name(const std::string& name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr size_t kLongest = 64;
  const std::string allowed = std::string(kLetters) + "0123456789_-";
  const bool good = !name.empty() && name.size() <= kLongest &&
                    kLetters.find(name.front()) != std::string_view::npos &&
                    name.find_first_not_of(allowed) == std::string::npos;
  if (!good) {
    throw invalid_argument(
        fmt::format("'{}' cannot name a project", name),
        fmt::format("use letters, digits, '_' and '-', at most {}, beginning with a letter",
                    kLongest));
  }
  if (is_taken(name)) {
    throw invalid_argument(
        fmt::format("a project cannot be named '{}': CMake or a library has that name", name),
        fmt::format("choose another name, for example my_{}", name));
  }
}

// Writes files and remembers which did not exist before, so that it can remove them again.
class FileTransaction {
 public:
  explicit FileTransaction(FileSystem& files) : files_(files) {}

  void write(const fs::path& path, const std::string& text) {
    make_folder(path.parent_path());
    made_.push_back(path.string());  // before the write: a failed write may have made the file
    files_.write_atomically(path.string(), text).value();
  }

  // A folder that cannot be removed, because others use it by now, stays.
  void roll_back() {
    for (auto path = made_.rbegin(); path != made_.rend(); ++path) (void)files_.remove(*path).ok();
  }

 private:
  void make_folder(const fs::path& path) {
    if (path.empty() || files_.exists(path.string()).value()) return;
    make_folder(path.parent_path());
    made_.push_back(path.string());
    files_.make_directories(path.string()).value();
  }

  FileSystem& files_;
  std::vector<std::string> made_;  // in the order they appeared
};

}  // namespace

NewProject write_new_project(const std::string& folder) {
  FileSystem& files = local_file_system();
  const fs::path path = (fs::path(folder) / "").parent_path();  // without a slash at its end
  NewProject made{.folder = path.string(), .name = path.filename().string()};
  check_name(made.name);
  if (files.exists(made.folder).value()) {
    if (!files.info(made.folder).value().is_directory) {
      throw invalid_argument(made.folder + " is a file", "name a folder that does not exist yet");
    }
    const std::vector<std::string> there = files.list_directory(made.folder).value();
    if (!there.empty()) {
      throw invalid_argument(fmt::format("the folder {} is not empty: it contains {}", made.folder,
                                         join_quoted(there, 3)),
                             "name a folder that does not exist yet");
    }
  }
  FileTransaction transaction(files);
  try {
    for (const TemplateFile& file : new_project_template()) {
      made.files.push_back(named(file.path, made.name));
      transaction.write(join_path(made.folder, made.files.back()), named(file.text, made.name));
    }
  } catch (...) {
    transaction.roll_back();  // half a project would keep the next try from starting
    throw;
  }
  return made;
}

std::string describe(const NewProject& made, const std::string& self) {
  std::string text = fmt::format("{}: a new project\n", made.folder);
  for (const std::string& file : made.files) text += fmt::format("  {}\n", file);
  const std::string prefix = installation_of(self).prefix;
  std::string found;  // where CMake finds it, when it does not by itself
  text += "\nNext:\n";
  if (prefix.empty()) {
    // The binary lies in BUILD/bin, and BUILD knows how to install.
    const std::string build =
        launch::shell_quoted(fs::path(self).parent_path().parent_path().string());
    text += fmt::format("  cmake --build {} --target library\n", build);
    text += fmt::format("  cmake --install {} --prefix $HOME/.local\n", build);
    found = " -DCMAKE_PREFIX_PATH=$HOME/.local";
  } else if (prefix != "/usr" && prefix != "/usr/local") {
    found = " -DCMAKE_PREFIX_PATH=" + launch::shell_quoted(prefix);
  }
  text += fmt::format("  cd {}\n", launch::shell_quoted(made.folder));
  text += fmt::format("  cmake -S . -B build -G Ninja{} && cmake --build build\n", found);
  text += fmt::format("  build/{}\n", made.name);
  text += "Its README.md describes how to test it, train on several workers, and change it.\n";
  return text;
}

}  // namespace muster::app
