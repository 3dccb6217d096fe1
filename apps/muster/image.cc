#include "apps/muster/image.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/launch/child_process.h"
#include "muster/launch/run.h"
#include "muster/launch/subprocess.h"

namespace muster::app {
namespace {

namespace fs = std::filesystem;
using launch::CompletedProcess;
using launch::run_to_end;

constexpr auto kAnswerTime = std::chrono::seconds(60);  // of an engine that is asked something

// The last line that is not empty: the rest is what led to it.
std::string last_words(const std::string& text) {
  std::string last;
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) last = trim(line);
  }
  return last;
}

// Why the engine cannot be used; nothing when it can.
std::optional<std::string> problem_with(const std::string& engine) {
  const char* path = std::getenv("PATH");
  try {
    launch::find_program(engine, path != nullptr ? path : "");
  } catch (const Error&) {
    return "not installed";
  }
  const CompletedProcess ran = run_to_end({engine, "info"}, kAnswerTime);
  if (ran.timed_out) return "does not answer";
  if (ran.status.ok()) return std::nullopt;
  const std::string said = last_words(ran.err.empty() ? ran.out : ran.err);
  return said.empty() ? launch::explain(ran.status) : said;
}

std::string working_engine(const std::string& only) {
  const Engines engines = find_engines(only);
  if (!engines.working.empty()) return engines.working.front();
  throw not_found("no program that builds images works here: " + join(engines.problems, "; "),
                  "install one (Debian: apt-get install podman, or buildah), or start the one that "
                  "is there");
}

// Runs the engine on our outputs.
void run_aloud(const std::vector<std::string>& argv, std::chrono::seconds limit,
               const std::string& what) {
  launch::ChildProcess child({.argv = argv});
  const auto status = child.wait_for(limit);
  if (!status) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("{}: {} did not end within {}", what, argv[0],
                            human_duration(static_cast<double>(limit.count()))),
                "give it more time with --limit");
  }
  if (status->ok()) return;
  throw invalid_argument(fmt::format("{}: {} ended with {}", what, argv[0], explain(*status)),
                         "the lines above say why");
}

nlohmann::json inspected(const std::string& engine, const std::string& tag) {
  const std::vector<std::string> argv =
      engine == "buildah" ? std::vector<std::string>{"buildah", "inspect", "--type=image", tag}
                          : std::vector<std::string>{engine, "image", "inspect", tag};
  const CompletedProcess ran = run_to_end(argv, kAnswerTime);
  if (!ran.status.ok()) {
    throw not_found(fmt::format("the image {} is not there: {}", tag, last_words(ran.err)),
                    "what the engine printed while it built says why");
  }
  return parse_json(ran.out, "what the engine said of the image", ErrorKind::kInternal).value();
}

// Returns the first word of the entry point.
std::string entry_point(const std::string& engine, const std::string& tag) {
  const nlohmann::json image = inspected(engine, tag);
  const nlohmann::json* config = &image;
  for (const nlohmann::json::json_pointer& place :
       {"/0/Config/Entrypoint"_json_pointer, "/OCIv1/config/Entrypoint"_json_pointer}) {
    if (!config->contains(place)) continue;
    const nlohmann::json& words = config->at(place);
    if (words.is_array() && !words.empty()) return words.at(0);
  }
  throw invalid_argument(fmt::format("the image {} has no entry point", tag),
                         "name the program in it: --program=/usr/local/bin/train");
}

// A working container of buildah, which is removed with this object.
class Container {
 public:
  explicit Container(const std::string& tag) {
    const CompletedProcess ran = run_to_end({"buildah", "from", "--pull-never", tag}, kAnswerTime);
    if (!ran.status.ok()) {
      throw internal_error(
          fmt::format("cannot start a container of the image {}: {}", tag, last_words(ran.err)));
    }
    name_ = last_words(ran.out);
  }
  ~Container() {
    try {
      run_to_end({"buildah", "rm", name_}, kAnswerTime);
    } catch (const Error&) {
      // It stays behind, which costs disk alone.
    }
  }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

CompletedProcess help_of(const std::string& engine, const std::string& tag,
                         const std::string& program) {
  if (engine != "buildah") {
    return run_to_end({engine, "run", "--rm", "--entrypoint=" + program, tag, "--help"},
                      kAnswerTime);
  }
  const Container container(tag);
  return run_to_end({"buildah", "run", container.name(), "--", program, "--help"}, kAnswerTime);
}

// An image without the program, or with one that lacks a library, would fail on every node.
void check_program(const std::string& engine, const std::string& tag, const std::string& program) {
  const CompletedProcess ran = help_of(engine, tag, program);
  if (ran.status.ok()) return;
  const std::string said = last_words(ran.err.empty() ? ran.out : ran.err);
  const bool missing = ran.status.code == 126 || ran.status.code == 127 ||
                       said.find("no such file") != std::string::npos ||
                       said.find("not found") != std::string::npos;
  if (missing && said.find("shared libraries") == std::string::npos) {
    throw not_found(fmt::format("the image {} has no program {}: {}", tag, program, said),
                    "does the Dockerfile copy it into its last stage? --program names another");
  }
  throw invalid_argument(
      fmt::format("{} in the image {} does not answer --help: {}", program, tag,
                  ran.timed_out ? "it ran on for a minute" : said),
      "an image of `muster new` has the libraries that ldd finds; are others loaded later?");
}

std::string size_of(const std::string& engine, const std::string& tag) {
  const CompletedProcess ran =
      engine == "buildah"
          ? run_to_end({"buildah", "images", "--format={{.Size}}", tag}, kAnswerTime)
          : run_to_end({engine, "image", "inspect", "--format={{.Size}}", tag}, kAnswerTime);
  const std::string text(trim(ran.out));
  const auto bytes = parse_int(text);
  return bytes ? human_bytes(static_cast<uint64_t>(*bytes)) : text;
}

// Sees to it that the Debian package, which the Dockerfile takes from the folder, lies there.
void bring_package(const ImageOptions& options) {
  const fs::path folder(options.folder);
  if (!options.package.empty()) {
    const fs::path from(options.package);
    const std::string name = from.filename().string();
    if (!name.starts_with("muster_") || !name.ends_with(".deb")) {
      throw invalid_argument(fmt::format("--package is '{}'", options.package),
                             "name Muster's Debian package, muster_VERSION_ARCHITECTURE.deb, which "
                             "`./dev package` makes");
    }
    std::error_code error;
    fs::copy_file(from, folder / name, fs::copy_options::overwrite_existing, error);
    if (error && !fs::equivalent(from, folder / name, error)) {
      throw not_found(fmt::format("cannot copy {} into {}", options.package, options.folder),
                      "`./dev package` in Muster's source makes it");
    }
    return;
  }
  const std::string recipe =
      local_file_system().read_file((folder / "Dockerfile").string()).value();
  if (recipe.find("COPY muster_*.deb") == std::string::npos) return;
  for (const std::string& file : local_file_system().list_directory(options.folder).value()) {
    if (file.starts_with("muster_") && file.ends_with(".deb")) return;
  }
  throw not_found(
      fmt::format("{} holds no muster_*.deb, which its Dockerfile installs", options.folder),
      "`./dev package` in Muster's source makes it; pass it with --package=FILE");
}

}  // namespace

Engines find_engines(const std::string& only) {
  Engines engines;
  for (const char* engine : {"podman", "buildah", "docker"}) {
    if (!only.empty() && only != engine) continue;
    const auto problem = problem_with(engine);
    if (problem) {
      engines.problems.push_back(fmt::format("{}: {}", engine, *problem));
    } else {
      engines.working.emplace_back(engine);
    }
  }
  return engines;
}

std::vector<std::string> build_command(const std::string& engine, const ImageOptions& options) {
  std::vector<std::string> argv = {engine, "build", "--tag=" + options.tag};
  if (!options.base.empty()) argv.push_back("--build-arg=BASE=" + options.base);
  argv.push_back("--file=" + (fs::path(options.folder) / "Dockerfile").string());
  argv.push_back(options.folder);
  return argv;
}

std::string build_image(const ImageOptions& given) {
  ImageOptions options = given;
  if (!fs::is_regular_file(fs::path(options.folder) / "Dockerfile")) {
    throw invalid_argument(
        fmt::format("there is no Dockerfile in {}", options.folder),
        "name the folder of a project; `muster new` makes one with a Dockerfile");
  }
  if (options.tag.empty()) {
    options.tag = to_lower((fs::absolute(options.folder) / "").parent_path().filename().string());
  }
  const std::string engine = working_engine(options.engine);
  bring_package(options);
  run_aloud(build_command(engine, options), options.limit, "cannot build the image");
  const std::string program =
      options.program.empty() ? entry_point(engine, options.tag) : options.program;
  check_program(engine, options.tag, program);
  if (options.push) {
    run_aloud({engine, "push", options.tag}, options.limit, "cannot push the image");
  }
  return fmt::format("image: {} ({}, {} answers --help{})", options.tag,
                     size_of(engine, options.tag), program, options.push ? "; pushed" : "");
}

}  // namespace muster::app
