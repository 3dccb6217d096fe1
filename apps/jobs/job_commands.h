// `muster submit` and `muster jobs` in a folder of a test, where records of jobs are its own, with
// programs that are scripts. For tests. Thread safety: threads may run commands at a time.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "apps/muster/run_muster.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::app {

// The tutorial's config.yaml, without its image.
constexpr const char* kTutorialConfig = R"(trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-8
  masterConfig:
    acceleratorConfig:
      count: 1
      type: NVIDIA_TESLA_T4
  workerCount: 1
  workerType: n1-standard-8
  useChiefInTfConfig: True
  args: [--from=config]
)";

class JobCommands : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
  }
  // A program that is these lines of a shell.
  void program(const std::string& lines) {
    write("train", "#!/bin/bash\n" + lines);
    std::filesystem::permissions(directory_ / "train", std::filesystem::perms::owner_all);
  }
  // A command of another system, in the folder tools/, that is these lines of a shell.
  void tool(const std::string& name, const std::string& lines) {
    program(lines);
    std::filesystem::create_directory(directory_ / "tools");
    std::filesystem::rename(directory_ / "train", directory_ / "tools/" + name);
  }
  std::string read(const std::string& name) const {
    return local_file_system().read_file(directory_ / name).value_or("");
  }
  // Runs muster where records of jobs are this test's own.
  ShellOutput muster(const std::string& arguments) const {
    return run_shell("cd " + directory_.path() + " && " + environment_ + "XDG_STATE_HOME=\"$PWD/" +
                     state_ + "\" " + muster_line(arguments));
  }
  nlohmann::json status(const std::string& job) const {
    return nlohmann::json::parse(muster("jobs status --json " + job).text, nullptr, false);
  }
  // Waits until the job is in that state, at most 60 s: Slurm looks at its queue every few seconds.
  bool becomes(const std::string& job, const std::string& state) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      if (status(job).value("state", "") == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  // Waits until a program has made the file, at most 60 s.
  bool appears(const std::string& name) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(directory_ / name)) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  // Waits until the file has content, at most 60 s.
  bool is_written(const std::string& name) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (read(name).empty()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  TempDirectory directory_;
  std::string environment_;  // in front of the command
  std::string state_ = "state";
};

}  // namespace muster::app
