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
  command::add_argument(*command, {"DIR", &options->folder, "Folder of the project"});
  const auto flag = [&](const Flag& it) { command::add_flag(*command, it); };
  flag({"tag",
        &options->tag,
        "Name of the image, with its registry and version; DIR:latest without it",
        {},
        "NAME"});
  flag({"push", &options->push, "Send the image to its registry"});
  flag({"base",
        &options->base,
        "Image to begin with, of the same Debian as this machine; its slim one without it",
        {},
        "IMAGE"});
  flag({"engine",
        &options->engine,
        "What builds; the first that works without it",
        {},
        {},
        {"podman", "buildah", "docker"}});
  flag({"dry-run", dry_run.get(), "Print what would be called, and stop there"});
  command->footer(
      "Compiles the project in a container and makes an image of the program and the libraries it "
      "loads, by the\n"
      "Dockerfile that `muster new` wrote. This machine's Muster goes in; Debian's packages come "
      "from where the\n"
      "base image has them from. The exit code is that of the engine.\n"
      "\nExamples:\n"
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
