// Container images of projects: their contents, and the program that builds them. Thread safety:
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
  std::string base{};        // the Debian image it is based on; empty: the slim one of this
                             // machine's version
  std::string engine{};      // "podman", "buildah" or "docker"; empty: the first that works
  bool push = false;
};

// Runs a program to its end within a time, as launch::run_to_end() does.
using RunProgram = std::function<launch::CompletedProcess(const std::vector<std::string>& argv)>;

// Returns the engine to build with, after asking it whether it works. `find` returns the path of a
// program, or "". Throws NotFound if none exists or none works, with the message of each.
std::string choose_engine(const std::string& wanted,
                          const std::function<std::string(const std::string&)>& find,
                          const RunProgram& run);
// Returns the reason why that engine cannot run the steps of a Dockerfile as containers: no user
// namespace with a /proc of its own can be had, as inside of a container, or no program that starts
// containers is here. "" if it can, or if BUILDAH_ISOLATION chooses the way.
std::string lacks_containers(const std::string& engine,
                             const std::function<std::string(const std::string&)>& find,
                             const RunProgram& run);

// Returns the name of an image of the folder: lower case, with '-' for characters that registries
// forbid.
std::string default_tag(const std::string& folder);

// Returns the commands that build the image with `engine`, a path, and push it if requested.
std::vector<std::vector<std::string>> image_commands(const ImageOptions& options,
                                                     const std::string& engine);

// Returns the Debian packages that compile a program with `libraries`: the compiler, the packages
// that the headers need, and those of the loaded libraries. Throws NotSupported if dpkg does not
// know them.
std::vector<std::string> packages_to_build(const std::vector<std::string>& libraries,
                                           const RunProgram& run);

// Returns "debian:bookworm-slim" for this machine's /etc/os-release, given as text. Throws
// InvalidArgument, which asks for --base, when it names no Debian.
std::string default_base(const std::string& os_release);

// Builds the image. `self` is the path of the muster binary: the image gets its library. The output
// of the engine is passed on. If it cannot run steps as containers, they are processes in a folder
// that is their root. Ctrl-C, SIGTERM and SIGHUP end the engine with all that it has started.
// Returns the exit code of the command that failed, or 0. Throws Error when the folder has no
// Dockerfile, no engine works, or the library cannot be found.
int build_image(const ImageOptions& options, const std::string& self);

// Returns the commands, one a line, for --dry-run.
std::string describe_image(const ImageOptions& options);

}  // namespace muster::app
