// n tasks of a distributed test as processes, which can be killed, stopped and continued.
// Thread safety: one thread, the test's.
//
//   TEST(Suite, Name) {
//     ProcessTasks tasks(2, [](Task& task) { ... task.store().set("ready", "") ... });
//     tasks.store().get("ready", 10s);
//     tasks.kill(1);
//     EXPECT_EQ(tasks.wait(0), 0) << tasks.output(0);
//   }
//
// A task is the test binary started again with only this test: a clean process, whatever threads
// this one runs. It executes the test up to the constructor, where it becomes the task; so
// statements before it run in tasks too. Only the constructor's arguments of the parent reach the
// tasks: pass numbers and paths through `settings`.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/temp_directory.h"
#include "muster/launch/child_process.h"
#include "tests/support/file_store.h"

namespace muster::inline v0_1::testing {

using Settings = std::map<std::string, std::string>;

// The state of a task; lives in the task's process.
class Task {
 public:
  Task(int rank, int size, std::string directory, Settings settings)
      : rank_(rank),
        size_(size),
        directory_(std::move(directory)),
        settings_(std::move(settings)),
        store_(directory_) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Shared by the tasks and the test, removed afterwards.
  const std::string& directory() const { return directory_; }
  const std::string& setting(const std::string& name) const { return settings_.at(name); }
  FileStore& store() { return store_; }

 private:
  const int rank_;
  const int size_;
  const std::string directory_;
  const Settings settings_;
  FileStore store_;
};

struct TaskOptions {
  Settings settings{};     // for Task::setting
  Settings environment{};  // set on top of this process's environment
};

class ProcessTasks {
 public:
  // Starts them. A task's exit code is 0 when `body` returned and no expectation failed in it, 1
  // otherwise. Tasks die with the test's process.
  ProcessTasks(int n, const std::function<void(Task&)>& body, const TaskOptions& options = {});
  ProcessTasks(const ProcessTasks&) = delete;
  ProcessTasks& operator=(const ProcessTasks&) = delete;

  // Waits for the end of one task: its exit code, or minus the signal that ended it. Throws
  // Timeout, with the task's output, if it still runs at the deadline.
  int wait(int rank, std::chrono::milliseconds deadline = std::chrono::seconds(40));
  // Waits for all and expects exit code 0 of each, showing the output of the failed ones.
  void expect_success(std::chrono::milliseconds deadline = std::chrono::seconds(40));

  void kill(int rank);    // SIGKILL
  void stop(int rank);    // SIGSTOP
  void resume(int rank);  // SIGCONT
  bool running(int rank);

  // The output of the task on standard output and standard error.
  std::string output(int rank) const;
  const std::string& directory() const { return directory_.path(); }
  FileStore& store() { return store_; }

 private:
  std::string log(int rank) const;

  TempDirectory directory_;
  FileStore store_;
  std::vector<launch::ChildProcess> children_;  // killed when this ends
};

}  // namespace muster::inline v0_1::testing
