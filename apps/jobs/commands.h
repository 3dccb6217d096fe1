// The commands of `muster` that are in muster-jobs, which links the code that submits jobs. Each
// function adds the options of its command, like the functions of apps/muster/commands.h.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "apps/muster/commands.h"

namespace muster::app {

struct JobsCommand {
  const char* name;
  const char* help;
};

inline constexpr JobsCommand kSubmitCommand = {
    "submit", "Start a program as a job on this machine, Slurm, Kubernetes or Vertex AI"};
inline constexpr JobsCommand kJobsCommand = {"jobs",
                                             "List, follow, cancel and remove submitted jobs"};
inline constexpr JobsCommand kJobCommand = {"job", "Write the configuration file of a job"};
inline constexpr JobsCommand kImageCommand = {"image", "Build a container image of a project"};
inline constexpr std::array<JobsCommand, 4> kCommandsOfJobs = {kSubmitCommand, kJobsCommand,
                                                               kJobCommand, kImageCommand};

// `arguments` are the arguments after "--" on the command line; `muster_folder` is the folder of
// `muster`, which jobs start.
void add_submit(CLI::App& app, const std::vector<std::string>& arguments,
                const std::string& muster_folder, Action& action);
// `arguments` as for add_submit().
void add_job(CLI::App& app, const std::vector<std::string>& arguments, Action& action);
// `muster_folder` as for add_submit().
void add_jobs(CLI::App& app, const std::string& muster_folder, Action& action);
// `muster` is its path.
void add_image(CLI::App& app, const std::string& muster, Action& action);

}  // namespace muster::app
