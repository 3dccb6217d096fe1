#include "apps/muster/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "apps/muster/install_prefix.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/launch/run.h"

namespace muster::app {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr std::array<const char*, 3> kEngines = {"podman", "buildah", "docker"};
// The time within which a working engine or dpkg answers.
constexpr seconds kAnswerTime(20);
// How the names of the parts' libraries begin.
constexpr const char* kLibraries = "libmuster-";

// Packages that compile a program, and that the library's headers include. The library itself names
// the ones that it loads.
constexpr std::array<const char*, 8> kCompilers = {
    "cmake",        "g++",         "libfmt-dev",        "libmimalloc-dev", "libopenblas0-openmp",
    "libtorch-dev", "ninja-build", "nlohmann-json3-dev"};

std::string program_in_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  try {
    return launch::find_program(name, path != nullptr ? path : "");
  } catch (const Error&) {
    return "";
  }
}

launch::CompletedProcess ask(const std::vector<std::string>& argv) {
  return launch::run_to_end(argv, kAnswerTime);
}

std::string first_line(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  const auto it =
      std::find_if(lines.begin(), lines.end(), [](const auto& line) { return !line.empty(); });
  return it == lines.end() ? "" : *it;
}

// The folder `.muster` of the project: the files of this machine that the image needs. It is
// removed with this object.
class Context {
 public:
  Context(const std::string& folder, const std::string& self)
      : path_(fs::path(folder) / ".muster") {
    remove();
    try {
      const std::vector<std::string> libraries = bring_libraries(self);
      const std::string names = join(packages_to_build(libraries, ask), "\n") + "\n";
      local_file_system().write_atomically((path_ / "packages").string(), names).value();
    } catch (...) {
      remove();
      throw;
    }
  }
  ~Context() { remove(); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  void remove() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  // Copies the libraries of the parts, their headers and the files by which CMake finds them;
  // returns the libraries' paths.
  std::vector<std::string> bring_libraries(const std::string& self) {
    const Installation from = installation_of(self);
    const fs::path prefix = path_ / "prefix";
    if (!from.prefix.empty()) {
      const fs::path source = from.prefix;
      copy(source / "include/muster", prefix / "include/muster");
      copy(source / from.folder / "cmake/muster", prefix / from.folder / "cmake/muster");
      fs::create_directories(prefix / from.folder);
      for (const auto& entry : fs::directory_iterator(source / from.folder)) {
        if (entry.path().filename().string().starts_with(kLibraries))
          fs::copy(entry.path(), prefix / from.folder / entry.path().filename(),
                   fs::copy_options::copy_symlinks);
      }
      return libraries_in(prefix / from.folder);
    }
    // A build folder can install its own targets.
    const fs::path build = fs::path(self).parent_path().parent_path();
    const launch::CompletedProcess installed = launch::run_to_end(
        {program_in_path("cmake"), "--install", build.string(), "--prefix", prefix.string()},
        seconds(120));
    for (const char* folder : {"lib", "lib64"}) {
      if (std::vector<std::string> all = libraries_in(prefix / folder); !all.empty()) return all;
    }
    throw Error(ErrorKind::kNotFound,
                fmt::format("there is no library for the image: {} is not installed, and its build "
                            "folder cannot install it: {}",
                            self, first_line(installed.err)),
                fmt::format("cmake --build {} --target library", launch::shell_quoted(build)));
  }

  static std::vector<std::string> libraries_in(const fs::path& folder) {
    std::vector<std::string> all;
    std::error_code none;  // there may be no such folder
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kLibraries) && name.ends_with(".so"))
        all.push_back(entry.path().string());
    }
    std::ranges::sort(all);
    return all;
  }

  static void copy(const fs::path& from, const fs::path& to) {
    fs::create_directories(to.parent_path());
    fs::copy(from, to, fs::copy_options::recursive);
  }

  fs::path path_;
};

ImageOptions completed(ImageOptions options) {
  if (options.tag.empty()) options.tag = default_tag(options.folder);
  if (options.base.empty()) {
    const auto release = local_file_system().read_file("/etc/os-release");
    options.base = default_base(release.value_or(""));
  }
  return options;
}

void check_folder(const std::string& folder) {
  if (fs::exists(fs::path(folder) / "Dockerfile")) return;
  if (!fs::is_directory(folder)) {
    throw Error(ErrorKind::kNotFound, fmt::format("there is no folder {}", folder),
                "name the folder of a project; to make one: muster new");
  }
  throw Error(ErrorKind::kNotFound, fmt::format("{} has no Dockerfile", folder),
              "name the folder of a project; to make one with a Dockerfile: muster new");
}

}  // namespace

std::string choose_engine(const std::string& wanted,
                          const std::function<std::string(const std::string&)>& find,
                          const RunProgram& run) {
  std::string said;
  for (const std::string name : kEngines) {
    if (!wanted.empty() && name != wanted) continue;
    const std::string path = find(name);
    if (path.empty()) {
      said += fmt::format("{}{} is not here", said.empty() ? "" : "; ", name);
      continue;
    }
    // Docker's client answers --version also if nothing can be built.
    const launch::CompletedProcess answer = run({path, "info"});
    if (!answer.timed_out && answer.status.ok()) return path;
    const std::string why = answer.timed_out ? "it did not answer" : first_line(answer.err);
    said += fmt::format("{}{} does not work: {}", said.empty() ? "" : "; ", name, why);
  }
  throw Error(ErrorKind::kNotFound,
              fmt::format("no program that builds images was found: {}", said),
              "on Debian: apt-get install buildah");
}

std::string lacks_containers(const std::string& engine,
                             const std::function<std::string(const std::string&)>& find,
                             const RunProgram& run) {
  if (fs::path(engine).filename() == "docker") return "";  // its service does the work
  if (std::getenv("BUILDAH_ISOLATION") != nullptr) return "";
  if (find("crun").empty() && find("runc").empty()) return "neither crun nor runc is installed";
  const std::string unshare = find("unshare");
  if (unshare.empty()) return "";
  // The engine does the same for each step of the Dockerfile.
  const bool works = run({unshare, "--user", "--map-root-user", "--mount", "--pid", "--fork",
                          "mount", "-t", "proc", "proc", "/proc"})
                         .status.ok();
  return works ? "" : "user namespaces are not available, as inside a container";
}

std::string default_tag(const std::string& folder) {
  // A slash at the end would leave no name after it.
  std::string name = (fs::weakly_canonical(folder) / "").parent_path().filename().string();
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return std::isalnum(c) ? static_cast<char>(std::tolower(c)) : '-';
  });
  while (name.starts_with('-')) name.erase(0, 1);
  return (name.empty() ? std::string("program") : name) + ":latest";
}

std::vector<std::vector<std::string>> image_commands(const ImageOptions& options,
                                                     const std::string& engine) {
  const bool buildah = fs::path(engine).filename() == "buildah";
  std::vector<std::vector<std::string>> commands{{engine, buildah ? "bud" : "build", "--build-arg",
                                                  "DEBIAN=" + options.base, "--tag", options.tag,
                                                  options.folder}};
  if (options.push) commands.push_back({engine, "push", options.tag});
  return commands;
}

std::vector<std::string> packages_to_build(const std::vector<std::string>& libraries,
                                           const RunProgram& run) {
  std::set<std::string> packages(kCompilers.begin(), kCompilers.end());
  const std::string ldd = program_in_path("ldd"), dpkg = program_in_path("dpkg-query");
  if (ldd.empty() || dpkg.empty()) {
    throw invalid_argument("not supported: making an image on a machine without ldd and dpkg",
                           "make it on Debian, or write your own Dockerfile");
  }
  std::vector<std::string> search{dpkg, "--search"};
  std::vector<std::string> list{ldd};
  list.insert(list.end(), libraries.begin(), libraries.end());
  for (const std::string& line : split(run(list).out, '\n')) {
    const size_t arrow = line.find("=> /");
    if (arrow == std::string::npos) continue;
    std::string path = line.substr(arrow + 3);
    path.erase(path.find_last_of('(') == std::string::npos ? path.size()
                                                           : path.find_last_of('(') - 1);
    // Where /lib is /usr/lib, a package may know either.
    search.push_back(path);
    search.push_back(path.starts_with("/usr/") ? path.substr(4) : "/usr" + path);
  }
  // It fails for an unknown path, and still names the others.
  for (const std::string& line : split(run(search).out, '\n')) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && !line.starts_with("diversion ")) {
      packages.insert(line.substr(0, colon));
    }
  }
  return {packages.begin(), packages.end()};
}

std::string default_base(const std::string& os_release) {
  std::string id, codename;
  for (const std::string& line : split(os_release, '\n')) {
    const auto value = [&](std::string_view key) {
      std::string text = line.substr(key.size());
      std::erase(text, '"');
      return text;
    };
    if (line.starts_with("ID=")) id = value("ID=");
    if (line.starts_with("VERSION_CODENAME=")) codename = value("VERSION_CODENAME=");
  }
  if (id == "debian" && !codename.empty()) return fmt::format("debian:{}-slim", codename);
  throw invalid_argument(
      fmt::format("the library of this machine ({}) needs a base image of the same system",
                  id.empty() ? "an unknown one" : id),
      "name an image with apt-get: --base=IMAGE");
}

int build_image(const ImageOptions& given, const std::string& self) {
  check_folder(given.folder);
  const ImageOptions options = completed(given);
  const std::string engine = choose_engine(options.engine, program_in_path, ask);
  std::vector<std::pair<std::string, std::string>> environment;
  if (const std::string why = lacks_containers(engine, program_in_path, ask); !why.empty()) {
    log::info(fmt::format("{}: {} builds with BUILDAH_ISOLATION=chroot", why,
                          fs::path(engine).filename().string()));
    environment.emplace_back("BUILDAH_ISOLATION", "chroot");
  }
  const Context context(options.folder, self);
  for (const std::vector<std::string>& command : image_commands(options, engine)) {
    // Engines have time limits of their own for downloads.
    const int code = launch::run_visibly(command, environment).shell_code();
    if (code != 0) return code;
  }
  return 0;
}

std::string describe_image(const ImageOptions& given) {
  check_folder(given.folder);
  const ImageOptions options = completed(given);
  std::string text;
  for (const auto& command :
       image_commands(options, choose_engine(options.engine, program_in_path, ask))) {
    std::vector<std::string> words;
    for (const std::string& word : command) words.push_back(launch::shell_quoted(word));
    text += join(words, " ") + "\n";
  }
  return text;
}

}  // namespace muster::app
