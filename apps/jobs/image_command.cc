#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/jobs/commands.h"
#include "apps/jobs/follow_job.h"
#include "apps/muster/image.h"
#include "muster/command/command_line.h"

namespace muster::app {

void add_image(CLI::App& app, const std::string& self, Action& action) {
  auto* command = app.add_subcommand(kImageCommand.name, kImageCommand.help);
  auto options = std::make_shared<ImageOptions>();
  auto dry_run = std::make_shared<bool>(false);
  command::add_argument(*command, {"DIR", &options->folder, "The project's folder"});
  const auto flag = [&](const Flag& it) { command::add_flag(*command, it); };
  flag({"tag",
        &options->tag,
        "Name of the image, with registry and version; default: DIR:latest",
        {},
        "NAME"});
  flag({"push", &options->push, "Push the image to its registry"});
  flag({"base",
        &options->base,
        "Base image, with the same Debian as this machine; default: Debian's slim image",
        {},
        "IMAGE"});
  flag({"engine",
        &options->engine,
        "Program that builds the image; default: the first that works",
        {},
        {},
        {"podman", "buildah", "docker"}});
  flag({"dry-run", dry_run.get(), "Print the commands without running them"});
  command->footer(
      "Compiles the project in a container and makes an image with the program and the libraries "
      "it loads, using\n"
      "the Dockerfile from `muster new`. The image gets this machine's Muster; Debian's packages "
      "come from the\n"
      "package sources of the base image. The exit code is that of the engine.\n"
      "\n"
      "Examples:\n"
      "  muster image\n"
      "  muster image shapes --tag=registry.example/team/shapes:3 --push\n"
      "  muster image --engine=podman --base=registry.example/debian:bookworm-slim");
  command->callback([options, dry_run, self, &action] {
    action = [options, dry_run, self] {
      if (*dry_run) {
        fmt::print("{}", describe_image(*options));
        return 0;
      }
      // Ctrl-C ends the engine, and the files that the build needed on this machine are removed.
      const InterruptScope interrupts;
      return build_image(*options, self);
    };
  });
}

}  // namespace muster::app
