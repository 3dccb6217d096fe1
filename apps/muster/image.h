// `muster image`: builds the container image of a project with the engine that is here, and looks
// whether the program in it runs. Thread safety: one call at a time in a process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace muster::app {

// The flags of `muster image`.
struct ImageOptions {
  std::string folder = ".";  // of the project; it holds a Dockerfile
  std::string tag;           // empty: the folder's name
  std::string program;       // its path in the image; empty: the image's entry point
  std::string package;       // Muster's Debian package, copied into the folder; empty: it is there
  std::string base;          // of both stages; empty: what the Dockerfile says
  std::string engine;        // podman, buildah or docker; empty: the first of them that works
  bool push = false;
  std::chrono::seconds limit = std::chrono::hours(2);  // of building, and of pushing
};

// The engines there are, and why others cannot be used.
struct Engines {
  std::vector<std::string> working;
  std::vector<std::string> problems;  // "docker: Cannot connect to the Docker daemon ..."
};
// Asks podman, buildah and docker, in this order, or `only` one of them.
Engines find_engines(const std::string& only = {});

// The words that build the image, for people and for the engine.
std::vector<std::string> build_command(const std::string& engine, const ImageOptions& options);

// Builds, looks whether the program answers --help, and pushes. What the engine prints while it
// builds goes on to our outputs. Returns a line that says what was made. Throws InvalidArgument for
// a folder that is no project, NotFound when no engine works or the image has no program, and Error
// with what the engine said.
std::string build_image(const ImageOptions& options);

}  // namespace muster::app
