// The `muster` command. It links no LibTorch, so it runs on login nodes too; what does, and what
// submits jobs, are programs of their own that it becomes.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/jobs/commands.h"
#include "apps/muster/command_main.h"
#include "apps/muster/helper_program.h"
#include "muster/stores/stores.h"

namespace muster::app {
namespace {

void add_commands(CLI::App& app, const CommandLine& line, Action& action) {
  if (!line.words.empty() && std::ranges::any_of(kCommandsOfJobs, [&](const JobsCommand& command) {
        return line.words.front() == command.name;
      })) {
    become_program({.name = "muster-jobs", .what = "which has the commands for jobs and images"},
                   line.all, line.own_folder);
  }
  add_run(app, line.all, line.program, line.own_folder, action);
  add_commands_of_jobs(app);
  add_data(app, action);
  add_inspect(app, line.all, line.own_folder, action);
  add_audit(app, action);
  add_diff(app, line.all, line.own_folder, action);
  add_export(app, line.all, line.own_folder, action);
  add_files(app, action);
  add_serve(app, line.words, line.own_folder, action);
  add_train(app, line.words, line.own_folder, action);
  add_board(app, line.words, line.own_folder, action);
  add_sim(app, line.words, line.own_folder, action);
  add_top(app, action);
  add_new(app, line.own_folder + "/muster", action);
  add_certificates(app, action);
  add_completion(app, line.own_folder, action);
  add_doctor(app, line.own_folder, action);
}

// A user of an interactive command waits for the bucket.
void wait_less_long(const CLI::App& app) {
  for (const char* command : {"ls", "cp", "cat", "inspect", "audit", "diff"}) {
    if (asks_for(app, command)) stores::set_retry_timeout(Seconds(30));
  }
}

}  // namespace

void add_commands_of_jobs(CLI::App& app) {
  for (const JobsCommand& command : kCommandsOfJobs) {
    app.add_subcommand(command.name, command.help);
  }
}

}  // namespace muster::app

int main(int argc, char** argv) {
  using namespace muster::app;
  return command_main(argc, argv, {.add = add_commands, .before = wait_less_long});
}
