// A program as the tasks of one cluster on this machine: a chief, workers and parameter servers, in
// processes that may be killed and started again. Thread safety: one thread, the test's.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/free_ports.h"
#include "muster/base/temp_directory.h"
#include "tests/end_to_end/program.h"

namespace muster::testing {

class ServedTasks {
 public:
  // `command` is the command of every task, with this model_dir. With `late`, start() starts
  // workers.
  ServedTasks(int workers, int servers,
              const std::function<Words(const std::string& model_dir)>& command, bool late = false)
      : command_(command(model_dir())) {
    nlohmann::json cluster;
    const auto add = [&](const std::string& type, int count) {
      for (const int port : free_ports(count))
        cluster[type].push_back("127.0.0.1:" + std::to_string(port));
    };
    add("chief", 1);
    add("worker", workers);
    add("ps", servers);
    cluster_ = cluster;
    for (const auto& [type, count] :
         {std::pair{"ps", servers}, {"chief", 1}, {"worker", late ? 0 : workers}}) {
      for (int index = 0; index < count; ++index) start(type, index);
    }
  }

  void start(const std::string& type, int index) {
    const nlohmann::json config{{"cluster", cluster_},
                                {"task", {{"type", type}, {"index", index}}}};
    tasks_[type + std::to_string(index)] = std::make_unique<Program>(
        command_,
        Variables{{"TF_CONFIG", config.dump()}, {"OMP_NUM_THREADS", "1"}, {"MUSTER_THREADS", "1"}});
  }
  Program& task(const std::string& name) { return *tasks_.at(name); }
  // Kills the task for real, and starts it again. Returns false when it had ended well before that.
  [[nodiscard]] bool replace(const std::string& type, int index) {
    Program& struck = task(type + std::to_string(index));
    struck.signal(SIGKILL);
    const int code = struck.wait();
    if (code == 0) return false;
    EXPECT_EQ(code, -SIGKILL) << struck.output();
    start(type, index);
    return true;
  }
  // Really kills the first server, of a run whose chief ends when it is lost, and starts both
  // again.
  void replace_server_and_chief() {
    task("ps0").signal(SIGKILL);
    EXPECT_EQ(task("ps0").wait(), -SIGKILL);
    EXPECT_EQ(task("chief0").wait(), 138) << task("chief0").output();
    EXPECT_THAT(task("chief0").output(), ::testing::HasSubstr("ps 0"));
    start("ps", 0);
    start("chief", 0);
  }
  // Asks all to stop, also tasks that have only just been started; the chief saves.
  void stop() {
    for (auto& [name, program] : tasks_) program->wait_until_it_handles(SIGTERM);
    std::map<std::string, int> codes;
    for (auto& [name, program] : tasks_) {
      program->signal(SIGTERM);
      codes[name] = 143;
    }
    expect_codes(codes);
    EXPECT_THAT(task("chief0").output(), ::testing::HasSubstr("after saving step"));
  }
  // Waits for the end of all and expects these exit codes; 0 for tasks that are not named.
  void expect_codes(const std::map<std::string, int>& codes = {}) {
    for (auto& [name, program] : tasks_) {
      const auto found = codes.find(name);
      EXPECT_EQ(program->wait(std::chrono::seconds(100)), found == codes.end() ? 0 : found->second)
          << name << ":\n"
          << program->output();
    }
  }
  std::string model_dir() const { return directory_ / "model"; }

 private:
  TempDirectory directory_;
  nlohmann::json cluster_;
  const Words command_;
  std::map<std::string, std::unique_ptr<Program>> tasks_;
};

}  // namespace muster::testing
