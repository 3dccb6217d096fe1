#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/muster/commands.h"
#include "muster/command/command_line.h"
#include "muster/launch/certificates.h"
#include "muster/launch/run.h"

namespace muster::app {
namespace {

struct CertificatesFlags {
  std::string out{};
  int days = 30;
  std::vector<std::string> hosts{};
};

int make(const CertificatesFlags& flags) {
  const auto made = launch::make_certificates(flags.hosts, flags.days);
  const std::string folder = std::filesystem::absolute(flags.out).lexically_normal().string();
  const auto variables = launch::write_certificates(made, folder);
  fmt::print("# valid for {} days; copy the folder to every host, and set for every task:\n",
             flags.days);
  for (const auto& [name, path] : variables)
    fmt::print("export {}={}\n", name, launch::shell_quoted(path));
  return 0;
}

}  // namespace

void add_certificates(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("certificates", "Make TLS certificates for the tasks of a job");
  auto flags = std::make_shared<CertificatesFlags>();
  command::add_flag(*command, {"out", &flags->out, "Folder to write to", {}, "DIR"})->required();
  command::add_flag(*command, {"days",
                               &flags->days,
                               "Days until the certificates expire",
                               {.at_least = 1, .at_most = 3650}});
  command->add_option("HOST", flags->hosts, "Hosts of the cluster in TF_CONFIG, without ports")
      ->required();
  command->footer(
      "The coordinator then accepts only calls of tasks that have the key, and encrypts them.\n"
      "Gradients are sent unencrypted; docs/security.md describes the consequences.\n"
      "\n"
      "Example:\n"
      "  muster certificates --out=job-tls host0.example.com 10.0.0.2");
  command->callback([flags, &action] { action = [flags] { return make(*flags); }; });
}

}  // namespace muster::app
