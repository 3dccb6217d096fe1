#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/muster/commands.h"
#include "apps/muster/image.h"
#include "muster/command/command_line.h"

namespace muster::app {
namespace {

struct ImageFlags {
  ImageOptions options;
  int limit = 7200;
};

}  // namespace

void add_image(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("image", "Build the container image of a project");
  auto flags = std::make_shared<ImageFlags>();
  ImageOptions& options = flags->options;
  command::add_argument(*command,
                        {"DIR", &options.folder, "Folder of the project, with a Dockerfile"});
  const auto flag = [&](const Flag& it) { command::add_flag(*command, it); };
  flag({"tag", &options.tag, "Name of the image; empty: the folder's", {}, "NAME"});
  flag({"package",
        &options.package,
        "Muster's Debian package, which is copied into the folder; empty: it lies there",
        {},
        "FILE"});
  flag({"base",
        &options.base,
        "The Debian that it is built on; empty: what the Dockerfile says",
        {},
        "IMAGE"});
  flag({"program",
        &options.program,
        "The program in the image that must answer --help; empty: its entry point",
        {},
        "PATH"});
  flag({"engine",
        &options.engine,
        "What builds it; empty: the first of these that works",
        {},
        {},
        {"podman", "buildah", "docker"}});
  flag({"push", &options.push, "Push the image to its registry when it is built"});
  flag({"limit",
        &flags->limit,
        "Seconds for building, and for pushing",
        {.at_least = 1},
        "SECONDS"});
  command->footer(
      "Takes podman, buildah or docker, whichever is there and works, and looks whether the "
      "program "
      "in the\n"
      "image answers --help.\n"
      "\nExamples:\n"
      "  muster image shapes --package=muster_0.1.0_amd64.deb\n"
      "  muster image shapes --tag=registry.example.com/team/shapes:v1 --push");
  command->callback([flags, &action] {
    action = [flags] {
      flags->options.limit = std::chrono::seconds(flags->limit);
      fmt::print("{}\n", build_image(flags->options));
      return 0;
    };
  });
}

}  // namespace muster::app
