// The program that runs `muster submit`, `jobs`, `job` and `image`: the commands that start jobs
// elsewhere.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/jobs/commands.h"
#include "apps/muster/command_main.h"

namespace muster::app {
namespace {

void add_commands(CLI::App& app, const CommandLine& line, Action& action) {
  add_submit(app, line.program, line.muster_folder, action);
  add_jobs(app, line.muster_folder, action);
  add_job(app, line.program, action);
  add_image(app, line.muster_folder + "/muster", action);
  // `muster completion` calls this.
  CLI::App* words = app.add_subcommand("completion", "How words of these commands are completed");
  words->group("");
  words->callback([&app, &action] {
    action = [&app] {
      for (const JobsCommand& command : kCommandsOfJobs)
        fputs(completion_of(*app.get_subcommand(command.name)).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace
}  // namespace muster::app

int main(int argc, char** argv) {
  return muster::app::command_main(argc, argv, {.add = muster::app::add_commands});
}
