#include "tests/support/process_tasks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1::testing {
namespace {

constexpr const char* kTaskVariable = "MUSTER_TEST_TASK";

// The number of groups constructed so far in this test, to distinguish them.
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

// Variables that a test runner sets for this process alone.
std::vector<std::string> gtest_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (variable.starts_with("GTEST_")) names.push_back(variable.substr(0, variable.find('=')));
  }
  return names;
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
    launch::ChildSpec spec{.argv = {self, "--gtest_filter=" + test, "--gtest_color=no",
                                    "--gtest_also_run_disabled_tests"},
                           .environment = {options.environment.begin(), options.environment.end()},
                           .without = gtest_variables(),
                           .dies_with_parent = true};
    spec.environment.emplace_back(kTaskVariable, description.dump());
    const int out = ::open(log(rank).c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0) throw from_errno(errno, "cannot open " + log(rank));
    spec.out = spec.err = out;
    try {
      children_.emplace_back(spec);
    } catch (...) {
      ::close(out);
      throw;
    }
    ::close(out);
  }
}

std::string ProcessTasks::log(int rank) const {
  return directory_ / ("task-" + std::to_string(rank) + ".log");
}

std::string ProcessTasks::output(int rank) const {
  std::ifstream file(log(rank), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int ProcessTasks::wait(int rank, std::chrono::milliseconds deadline) {
  const auto status = children_.at(rank).wait_for(deadline);
  if (!status) {
    throw Error(ErrorKind::kTimeout, "task " + std::to_string(rank) + " still runs after " +
                                         std::to_string(deadline.count()) + " ms; it printed:\n" +
                                         output(rank));
  }
  return status->signal != 0 ? -status->signal : status->code;
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

void ProcessTasks::kill(int rank) { children_.at(rank).signal(SIGKILL); }
void ProcessTasks::stop(int rank) { children_.at(rank).signal(SIGSTOP); }
void ProcessTasks::resume(int rank) { children_.at(rank).signal(SIGCONT); }
bool ProcessTasks::running(int rank) { return !children_.at(rank).status(); }

}  // namespace muster::inline v0_1::testing
