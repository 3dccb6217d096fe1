#include "tests/support/process_tasks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::testing {
namespace {

constexpr const char* kTaskVariable = "MUSTER_TEST_TASK";

// Constructed so far in this test, to tell several in one test apart.
int next_ordinal(const std::string& test) {
  static std::string current;
  static int count = 0;
  if (current != test) {
    current = test;
    count = 0;
  }
  return count++;
}

std::string current_test() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  if (info == nullptr) throw internal_error("ProcessTasks works only inside a test");
  return std::string(info->test_suite_name()) + "." + info->name();
}

[[noreturn]] void become_task(const nlohmann::json& description,
                              const std::function<void(Task&)>& body) {
  int code = 0;
  try {
    Task task(description.at("rank"), description.at("size"), description.at("directory"),
              description.at("settings"));
    body(task);
  } catch (const std::exception& error) {
    std::cerr << "the task failed: " << error.what() << std::endl;
    code = 1;
  }
  if (::testing::Test::HasFailure()) code = 1;
  log::flush();
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  // Without static destructors: threads of libraries may still run.
  _exit(code);
}

}  // namespace

ProcessTasks::ProcessTasks(int n, const std::function<void(Task&)>& body,
                           const TaskOptions& options)
    : store_(directory_.path()) {
  const std::string test = current_test();
  const int ordinal = next_ordinal(test);
  if (const char* text = std::getenv(kTaskVariable); text != nullptr) {
    const auto description = nlohmann::json::parse(text);
    if (description.at("ordinal") == ordinal) become_task(description, body);
    throw internal_error("a test that starts tasks twice must not depend on the first ones",
                         "use one ProcessTasks per test");
  }

  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (int rank = 0; rank < n; ++rank) {
    const nlohmann::json description = {{"rank", rank},
                                        {"size", n},
                                        {"ordinal", ordinal},
                                        {"directory", directory_.path()},
                                        {"settings", options.settings}};
    // All memory is taken before fork(): after it, only calls that are safe in a copy of a process
    // with threads.
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string variable = *entry;
      const std::string name = variable.substr(0, variable.find('='));
      if (name.starts_with("GTEST_") || options.environment.contains(name)) continue;
      variables.push_back(variable);
    }
    for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
    variables.push_back(std::string(kTaskVariable) + "=" + description.dump());
    std::vector<std::string> arguments = {self, "--gtest_filter=" + test, "--gtest_color=no",
                                          "--gtest_also_run_disabled_tests"};
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> list;
      for (std::string& text : texts) list.push_back(text.data());
      list.push_back(nullptr);
      return list;
    };
    const std::vector<char*> argv = pointers(arguments);
    const std::vector<char*> envp = pointers(variables);
    const int out = ::open(log(rank).c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0) throw from_errno(errno, "cannot open " + log(rank));
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
      ::dup2(out, STDOUT_FILENO);
      ::dup2(out, STDERR_FILENO);
      ::execve(self.c_str(), argv.data(), envp.data());
      ::_exit(127);
    }
    ::close(out);
    if (pid < 0) throw from_errno(errno, "cannot start a task");
    children_.push_back({.pid = pid});
  }
}

ProcessTasks::~ProcessTasks() {
  for (Child& child : children_) {
    if (child.ended) continue;
    ::kill(child.pid, SIGKILL);
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

std::string ProcessTasks::log(int rank) const {
  return directory_ / ("task-" + std::to_string(rank) + ".log");
}

std::string ProcessTasks::output(int rank) const {
  std::ifstream file(log(rank), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool ProcessTasks::reap(int rank) {
  Child& child = children_.at(rank);
  if (child.ended) return true;
  int status = 0;
  const pid_t got = ::waitpid(child.pid, &status, WNOHANG);
  if (got != child.pid) return false;
  child.ended = true;
  child.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return true;
}

int ProcessTasks::wait(int rank, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!reap(rank)) {
    if (std::chrono::steady_clock::now() >= end) {
      throw Error(ErrorKind::kTimeout, "task " + std::to_string(rank) + " still runs after " +
                                           std::to_string(deadline.count()) + " ms; it printed:\n" +
                                           output(rank));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return children_[rank].code;
}

void ProcessTasks::expect_success(std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (size_t rank = 0; rank < children_.size(); ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    EXPECT_EQ(wait(static_cast<int>(rank), left), 0) << "task " << rank << " printed:\n"
                                                     << output(static_cast<int>(rank));
  }
}

void ProcessTasks::kill(int rank) {
  if (!reap(rank)) ::kill(children_.at(rank).pid, SIGKILL);
}
void ProcessTasks::stop(int rank) {
  if (!reap(rank)) ::kill(children_.at(rank).pid, SIGSTOP);
}
void ProcessTasks::resume(int rank) {
  if (!reap(rank)) ::kill(children_.at(rank).pid, SIGCONT);
}
bool ProcessTasks::running(int rank) { return !reap(rank); }

}  // namespace muster::inline v0_1::testing
