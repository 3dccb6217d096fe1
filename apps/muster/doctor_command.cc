#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/muster/commands.h"
#include "apps/muster/doctor.h"
#include "muster/command/command_line.h"

namespace muster::app {
namespace {

struct DoctorFlags {
  bool json = false;
  double timeout = 60;
};

int examine(const DoctorFlags& flags, const std::string& own_folder) {
  DoctorFacts facts{.version = MUSTER_VERSION, .environment = Environment::process()};
  facts.machine = gather_machine(facts.environment);
  facts.probe = gather_probe(own_folder,
                             std::chrono::milliseconds(static_cast<int64_t>(flags.timeout * 1000)));
  const std::vector<Finding> findings = judge(facts);
  if (flags.json) {
    fmt::print(
        "{}\n",
        doctor_json(findings, facts).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    const bool color = isatty(STDOUT_FILENO) == 1 &&
                       facts.environment.get_or("NO_COLOR", "").empty() &&
                       facts.environment.get_or("TERM", "") != "dumb";
    fputs(doctor_text(findings, color).c_str(), stdout);
  }
  return doctor_exit_code(findings);
}

}  // namespace

void add_doctor(CLI::App& app, const std::string& own_folder, Action& action) {
  auto* command = app.add_subcommand("doctor", "Check this installation and this machine");
  auto flags = std::make_shared<DoctorFlags>();
  command::add_flag(*command, {"json", &flags->json, "Print one JSON document, for programs"});
  command::add_flag(*command,
                    {"timeout",
                     &flags->timeout,
                     "Seconds until muster-probe, the program that loads LibTorch, is stopped",
                     {.at_least = 1, .at_most = 86400},
                     "SECONDS"});
  command->footer(
      "Checks the LibTorch, BLAS and allocator that are loaded, cores, memory and network, whether "
      "two\n"
      "processes of this machine can communicate, and the variables that programs read (TF_CONFIG, "
      "...).\n"
      "Each line is ok, note, warning (it works, but not well) or problem (it does not work), "
      "followed by\n"
      "the fix. If LibTorch cannot be loaded, it shows why and checks the rest.\n"
      "\n"
      "Exit codes: 0 no problem, 1 a problem.\n"
      "\n"
      "Examples:\n"
      "  muster doctor\n"
      "  muster doctor --json\n"
      "  muster doctor --timeout 300");
  command->callback([flags, own_folder, &action] {
    action = [flags, own_folder] { return examine(*flags, own_folder); };
  });
}

}  // namespace muster::app
