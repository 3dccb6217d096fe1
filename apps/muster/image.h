// Container images of projects: what an image is built of, and with which program. Thread safety:
// functions of their arguments and of this machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/launch/subprocess.h"

namespace muster::app {

// The flags of `muster image`.
struct ImageOptions {
  std::string folder = ".";  // the project, with its Dockerfile
  std::string tag{};         // "registry/name:version"; empty: the folder's name, with :latest
  std::string base{};        // the Debian it stands on; empty: the slim one of this machine's
  std::string engine{};      // "podman", "buildah" or "docker"; empty: the first that works
  bool push = false;
};

// Runs a program to its end within a time, as launch::run_to_end() does.
using RunProgram = std::function<launch::CompletedProcess(const std::vector<std::string>& argv)>;

// Returns the engine to build with, after asking it whether it works. `find` gives the path of a
// program, or "". Throws NotFound when none is there or none works, with what each said.
std::string choose_engine(const std::string& wanted,
                          const std::function<std::string(const std::string&)>& find,
                          const RunProgram& run);
// Returns what keeps that engine from running the steps of a Dockerfile as containers: no user
// namespace with a /proc of its own can be had, as inside of a container, or no program that starts
// containers is here. "" when nothing does, or if BUILDAH_ISOLATION is set.
std::string lacks_containers(const std::string& engine,
                             const std::function<std::string(const std::string&)>& find,
                             const RunProgram& run);

// Returns the name an image of the folder gets: lower case, with what registries forbid as '-'.
std::string default_tag(const std::string& folder);

// Returns the commands that build the image, and push it where that is asked for, with `engine`, a
// path.
std::vector<std::vector<std::string>> image_commands(const ImageOptions& options,
                                                     const std::string& engine);

// Returns the Debian packages that compile a program with the libraries of `libraries`: the
// compiler, what the headers need, and what holds the libraries that it loads. Throws NotSupported
// where dpkg does not know them.
std::vector<std::string> packages_to_build(const std::vector<std::string>& libraries,
                                           const RunProgram& run);

// Returns "debian:bookworm-slim" for this machine's /etc/os-release, given as text. Throws
// InvalidArgument, which asks for --base, when it names no Debian.
std::string default_base(const std::string& os_release);

// Builds the image. `self` is the path of the muster binary: its library is what the image gets.
// What the engine prints is passed on. Where it cannot run steps as containers, they are processes
// in a folder that is their root. Ctrl-C, SIGTERM and SIGHUP end the engine with all that it has
// started. Returns the exit code of the command that failed, or 0.
// Throws Error when the folder has no Dockerfile, no engine works, or the library cannot be found.
int build_image(const ImageOptions& options, const std::string& self);

// Returns the commands, one a line, for --dry-run.
std::string describe_image(const ImageOptions& options);

}  // namespace muster::app
