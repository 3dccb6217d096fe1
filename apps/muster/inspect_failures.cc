#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/muster/inspect.h"
#include "muster/base/printable.h"
#include "muster/base/small_file.h"
#include "muster/base/text_table.h"
#include "muster/formats/failure_report.h"

namespace muster::app {
namespace {

using formats::FailureReport;
using Call = FailureReport::Call;

constexpr uint64_t kMostReport = 16ull << 20;  // bytes of a file

// The calls of one communicator, by task.
struct Group {
  int64_t size = 1;
  std::map<std::string, std::vector<Call>> of_tasks{};
};

bool has_ended_well(const Call& call) { return call.seconds >= 0 && call.failure.empty(); }

// The communicators of the reports. Those of one transport and size are one.
std::map<std::string, Group> groups_of(const std::vector<FailureReport>& reports) {
  std::map<std::string, Group> groups;
  for (const FailureReport& report : reports) {
    for (const Call& call : report.calls) {
      Group& group = groups[fmt::format("{} of {} ranks", call.transport, call.size)];
      group.size = call.size;
      group.of_tasks[report.task].push_back(call);
    }
  }
  return groups;
}

std::string call_text(const Call* call) {
  if (call == nullptr) return "nothing";
  if (has_ended_well(*call)) {
    return call->seconds > 0 ? fmt::format("{} ({:.3f} s)", call->call, call->seconds) : call->call;
  }
  return fmt::format("{}, called {:.1f} s before the report", call->call, call->before);
}

std::string group_text(const std::string& name, const Group& group) {
  std::string text = fmt::format("\n{}\n", name);
  TextTable table({">rank", "task", "last that ended", "first that did not"});
  std::set<int64_t> ranks;
  std::map<int64_t, int64_t> called;  // the last number by rank
  std::map<int64_t, std::string> tasks;
  for (const auto& [task, calls] : group.of_tasks) {
    const Call* done = nullptr;
    const Call* open = nullptr;
    for (const Call& call : calls) {
      if (has_ended_well(call)) done = &call;
      if (!has_ended_well(call) && open == nullptr) open = &call;
    }
    const int64_t rank = calls.back().rank;
    ranks.insert(rank);
    tasks[rank] = task;
    called[rank] = calls.back().number;
    table.add({std::to_string(rank), task, call_text(done), call_text(open)});
  }
  text += table.text("  ");
  for (int64_t rank = 0; rank < group.size; ++rank) {
    if (!ranks.contains(rank)) text += fmt::format("  rank {} left no report\n", rank);
  }
  int64_t most = 0;
  for (const auto& [rank, number] : called) most = std::max(most, number);
  for (const auto& [rank, number] : called) {
    if (number < most) {
      text += fmt::format(
          "  {} (rank {}) made {} calls, and another rank {}: the others waited for it\n",
          tasks[rank], rank, number, most);
    }
  }
  return text;
}

}  // namespace

Inspection inspect_failures(FileSystem& files, const std::string& model_dir, bool json) {
  const std::string folder = join_path(model_dir, "failures");
  const auto names = files.list_directory(folder);
  if (!names.ok() && names.error().kind() != ErrorKind::kNotFound) throw names.error();
  std::vector<FailureReport> reports;
  nlohmann::json document = nlohmann::json::array();
  for (const std::string& name : names.ok() ? names.value() : std::vector<std::string>()) {
    if (!name.ends_with(".json")) continue;
    const std::string path = join_path(folder, name);
    const std::string text = read_small_file(files, path, kMostReport).value();
    reports.push_back(formats::parse_failure_report(text, path).value());
    document.push_back(nlohmann::json::parse(text));
  }
  if (reports.empty()) {
    throw not_found(fmt::format("{} has no report of a failure", model_dir),
                    "a run of several tasks leaves one when a task fails and the others notice it");
  }
  if (json) return {.text = document.dump(2) + "\n"};
  // Reports of an earlier failure, by tasks that did not take part in the last one, are marked.
  constexpr double kSameFailure = 60;  // seconds
  double last = 0;
  for (const FailureReport& report : reports) last = std::max(last, report.wall_seconds);
  Inspection inspection{.text = fmt::format("the last failure was at {:%Y-%m-%d %H:%M:%S}\n",
                                            fmt::localtime(static_cast<std::time_t>(last)))};
  std::vector<FailureReport> now;
  for (const FailureReport& report : reports) {
    const bool old = report.wall_seconds < last - kSameFailure;
    inspection.text += fmt::format("{} after step {}{}: {}\n", printable(report.task), report.step,
                                   old ? ", in an earlier failure" : "", printable(report.error));
    if (!old) now.push_back(report);
  }
  for (const auto& [name, group] : groups_of(now)) inspection.text += group_text(name, group);
  return inspection;
}

}  // namespace muster::app
