#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/muster/audit.h"
#include "apps/muster/commands.h"
#include "apps/muster/diff.h"
#include "muster/base/exit_code.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"

namespace muster::app {
namespace {

struct RunPaths {
  std::string a{};
  std::string b{};
  bool json = false;
};

int print(const std::string& text, bool good) {
  fputs(text.c_str(), stdout);
  fflush(stdout);
  return good ? 0 : kExitFailed;
}

Flag json_output(RunPaths& paths) {
  return {"json", &paths.json, "Print one JSON document, for programs"};
}

}  // namespace

void add_audit(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("audit", "Check that a run used each example once in each epoch");
  auto paths = std::make_shared<RunPaths>();
  command::add_argument(*command, {"MODEL_DIR", &paths->a, "Folder of a run with RunConfig::audit"})
      ->required();
  command::add_flag(*command, json_output(*paths));
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
      const formats::Audit audit = formats::audit(read_audit(file_systems(), paths->a));
      return print(show_audit(audit, paths->json), audit.clean());
    };
  });
}

void add_diff(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("diff", "Find the first step at which two runs differ");
  auto paths = std::make_shared<RunPaths>();
  command::add_argument(*command, {"RUN_A", &paths->a, "A model_dir, or a checkpoint"})->required();
  command::add_argument(*command, {"RUN_B", &paths->b, "Another one"})->required();
  command::add_flag(*command, json_output(*paths));
  command->footer(
      "Compares, bit by bit, the checkpoints of equal steps, the numbers of event files and the\n"
      "records of used examples. Rates are left out. Exit codes: 0 the runs are the same, 1 they\n"
      "differ, 2 there is nothing to compare.\n"
      "\n"
      "Examples:\n"
      "  muster diff model_a model_b\n"
      "  muster diff model_a/model.ckpt-100 model_b/model.ckpt-100");
  command->callback([paths, &action] {
    action = [paths] {
      const RunDiff diff = diff_runs(file_systems(), paths->a, paths->b);
      return print(show_diff(diff, paths->json), diff.same());
    };
  });
}

}  // namespace muster::app
