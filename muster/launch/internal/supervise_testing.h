// Runs of shell scripts under supervise(), for tests. Thread safety: one thread.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/launch/supervise.h"

namespace muster::inline v0_1::launch {

class SuperviseTest : public ::testing::Test {
 protected:
  SuperviseTest() {
    out_ = open((folder_ + "/out").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    err_ = open((folder_ + "/err").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  ~SuperviseTest() override {
    close(out_);
    close(err_);
  }

  // "" if the file does not exist.
  std::string read(const std::string& name) {
    return local_file_system().read_file(folder_ + "/" + name).value_or("");
  }

  // Times are generous where a test does not want them to run out, since machines can be busy.
  Outcome supervise_scripts(const std::vector<std::string>& scripts,
                            SuperviseOptions options = {}) {
    std::vector<ProcessSpec> processes;
    for (std::size_t i = 0; i < scripts.size(); ++i)
      processes.push_back(process("worker " + std::to_string(i), scripts[i]));
    return supervise_here(processes, options);
  }
  // One worker, and an evaluator outside the group.
  Outcome supervise_beside(const std::string& worker, const std::string& evaluator,
                           SuperviseOptions options = {}) {
    std::vector<ProcessSpec> processes = {process("worker 0", worker),
                                          process("evaluator", evaluator)};
    processes[1].beside = true;
    return supervise_here(processes, options);
  }

  // As supervise_scripts(), until it is as `well` says, five times at most: a busy machine may keep
  // tasks from their work for longer than the short times of a test.
  Outcome supervise_until(const std::function<bool(const Outcome&)>& well,
                          const std::vector<std::string>& scripts, SuperviseOptions options) {
    Outcome outcome;
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(ftruncate(err_, 0), 0);
      std::filesystem::remove(folder_ + "/ready");
      outcome = supervise_scripts(scripts, options);
      if (well(outcome)) break;
    }
    return outcome;
  }

  ProcessSpec process(const std::string& name, const std::string& script) {
    // wait_for: until a file is there. as: writes this process's number into a file. wait_for_end:
    // until a process that did so is gone, which is when its supervisor has seen its end: until
    // then it answers signals. All of them give up in the end, so that no test leaves a loop
    // behind.
    return {.name = name,
            .argv = {"/bin/bash", "-c",
                     "cd " + folder_ +
                         "; wait_for() { for i in {1..3000}; do [ -e $1 ] && return; "
                         "sleep 0.01; done; exit 99; }\n"
                         "as() { echo $$ >$1.new; mv $1.new $1; }\n"
                         "wait_for_end() { wait_for $1; for i in {1..3000}; do "
                         "kill -0 $(<$1) 2>/dev/null || return; sleep 0.01; done; exit 99; }\n" +
                         script}};
  }
  Outcome supervise_here(const std::vector<ProcessSpec>& processes, SuperviseOptions options) {
    options.out_fd = out_;
    options.err_fd = err_;
    return supervise(processes, options);
  }

  bool gone(int pid) {
    for (int i = 0; i < 6000; ++i) {
      std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
      std::string text;
      std::getline(file, text);
      const std::size_t name_end = text.rfind(") ");
      if (name_end == std::string::npos || text[name_end + 2] == 'Z') return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  const TempDirectory directory_;
  const std::string folder_ = directory_.path();
  int out_ = -1;
  int err_ = -1;
};

}  // namespace muster::inline v0_1::launch
