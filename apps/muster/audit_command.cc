#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/model/model_flags.h"
#include "apps/muster/audit.h"
#include "apps/muster/commands.h"
#include "apps/muster/diff.h"
#include "apps/muster/helper_program.h"
#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"

namespace muster::app {
namespace {

struct AuditFlags {
  std::string model_dir{};
  bool json = false;
};

int print(const std::string& text, bool good) {
  fputs(text.c_str(), stdout);
  fflush(stdout);
  return good ? 0 : kExitFailed;
}

}  // namespace

void add_audit(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("audit", "Check that a run used each example once in each epoch");
  auto paths = std::make_shared<AuditFlags>();
  command::add_argument(*command,
                        {"MODEL_DIR", &paths->model_dir, "Folder of a run with RunConfig::audit"})
      ->required();
  command::add_flag(*command, {"json", &paths->json, "Print one JSON document, for programs"});
  command->footer(
      "The run records its examples if RunConfig::audit is set. An example is named by its epoch\n"
      "and its place in the order of that epoch. Steps that were lost with a start of the run do\n"
      "not count; the steps that replaced them do. Exit codes: 0 each example was used once,\n"
      "1 not so, 2 there is no record.\n"
      "\n"
      "Examples:\n"
      "  mnist --data_dir=data/mnist --model_dir=model --audit\n"
      "  muster audit model");
  command->callback([paths, &action] {
    action = [paths] {
      const formats::Audit audit = formats::audit(read_audit(file_systems(), paths->model_dir));
      return print(show_audit(audit, paths->json), audit.clean());
    };
  });
}

void add_diff(CLI::App& app, const std::vector<std::string>& all, const std::string& own_folder,
              Action& action) {
  auto flags = std::make_shared<DiffFlags>();
  auto* command = add_diff_command(app, *flags);
  command->callback([flags, command, &all, own_folder, &action] {
    action = [flags, command, &all, own_folder] {
      FileSystem& files = file_systems();
      if (is_model(files, flags->a) || is_model(files, flags->b))
        become_program(kModelProgram, all, own_folder);
      for (const char* name : {"--input", "--tolerance", "--seed", "--rows"}) {
        if (command->count(name) > 0)
          throw invalid_argument(fmt::format("{} is for models, and {} is a run", name, flags->a),
                                 "leave it out: runs are compared bit by bit");
      }
      const RunDiff diff = diff_runs(files, flags->a, flags->b);
      return print(show_diff(diff, flags->json), diff.same());
    };
  });
}

}  // namespace muster::app
