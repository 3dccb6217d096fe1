#include "apps/muster/top.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <utility>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/terminal.h"
#include "muster/base/text_table.h"

namespace muster::app {
namespace {

using plan::Activity;
using summary::LiveReplica;
using summary::LiveRun;
using summary::LiveState;

constexpr int kBar = 20;

// What a bar is made of, in this order.
struct BarPart {
  Activity activity;
  char letter;
  const char* color;
};
constexpr std::array<BarPart, 11> kParts{{{Activity::kInput, 'i', "\033[33m"},
                                          {Activity::kCompute, 'c', "\033[32m"},
                                          {Activity::kOther, 'o', "\033[32m"},
                                          {Activity::kProgram, 'p', "\033[32m"},
                                          {Activity::kCommunication, '~', "\033[34m"},
                                          {Activity::kWaiting, 'w', "\033[34m"},
                                          {Activity::kSaving, 's', "\033[35m"},
                                          {Activity::kEvaluating, 'e', "\033[36m"},
                                          {Activity::kExporting, 'x', "\033[36m"},
                                          {Activity::kServing, 'v', "\033[36m"},
                                          {Activity::kStarting, '-', "\033[37m"}}};

// How many of the letters of a bar each part has; the largest remainders get the last ones.
std::array<int, kParts.size()> shares(const plan::StepSeconds& seconds) {
  std::array<int, kParts.size()> letters{};
  const double total = seconds.total();
  if (total <= 0) return letters;
  std::vector<std::pair<double, size_t>> rests;
  int given = 0;
  for (size_t p = 0; p < kParts.size(); ++p) {
    const double exact = kBar * seconds.of(kParts[p].activity) / total;
    letters[p] = static_cast<int>(exact);
    given += letters[p];
    rests.emplace_back(exact - letters[p], p);
  }
  std::ranges::sort(rests, std::greater());
  for (size_t r = 0; given < kBar && r < rests.size(); ++r, ++given) ++letters[rests[r].second];
  return letters;
}

std::string bar_of(const plan::StepSeconds& seconds, bool color = false) {
  std::string bar;
  const auto letters = shares(seconds);
  for (size_t p = 0; p < kParts.size(); ++p) {
    if (letters[p] == 0) continue;
    const std::string part(static_cast<size_t>(letters[p]), kParts[p].letter);
    bar += color ? kParts[p].color + part + "\033[m" : part;
  }
  return bar;
}

// The bars at the end of a line, in colours.
std::string colored(std::string line, const LiveReplica& replica) {
  size_t end = line.size();
  for (const plan::StepSeconds* seconds : {&replica.now.whole, &replica.mean}) {
    const std::string bar = bar_of(*seconds);
    const size_t begin = bar.empty() ? std::string::npos : line.rfind(bar, end - bar.size());
    if (begin == std::string::npos) continue;
    line.replace(begin, bar.size(), bar_of(*seconds, /*color=*/true));
    end = begin;
  }
  return line;
}

std::string state_of(const LiveRun::Task& task) {
  const std::string state(summary::to_string(task.state));
  if (task.state == LiveState::kSilent) return state + " for " + human_duration(task.age);
  if (task.state == LiveState::kFailed && task.status.exit_code != 0)
    return fmt::format("{}, code {}", state, task.status.exit_code);
  return state;
}

std::string doing(const LiveReplica& replica) {
  std::string text(plan::to_string(replica.now.activity));
  if (replica.now.bucket > 0)
    text += fmt::format(", bucket {} of {}", replica.now.bucket, replica.now.buckets);
  return text + fmt::format(" for {}", human_duration(replica.now.seconds));
}

std::string rate_text(double rate) {
  return rate <= 0 ? "" : rate < 9.995 ? fmt::format("{:.2f}", rate) : fmt::format("{:.0f}", rate);
}

// A task that evaluates counts batches.
std::string rate_text(const LiveReplica& replica, const LiveRun::Task& task) {
  const std::string rate = rate_text(replica.rate);
  return rate.empty() || task.status.trains() ? rate : rate + " batches";
}

std::string bytes_text(int64_t bytes) {
  return bytes <= 0 ? "" : human_bytes(static_cast<uint64_t>(bytes));
}

std::string ms_text(const plan::StepSeconds& mean) {
  const double ms = mean.total() * 1e3;
  return ms <= 0 ? "" : ms < 9.995 ? fmt::format("{:.2f}", ms) : fmt::format("{:.0f}", ms);
}

std::string head_of(const LiveRun& run) {
  int64_t step = -1, last = -1;
  double rate = 0, begun = 0, now = 0;
  for (const LiveReplica& replica : run.replicas) {
    if (!run.tasks[replica.task].status.trains()) continue;
    step = std::max(step, replica.now.step);
    rate = std::max(rate, replica.rate);
  }
  for (const LiveRun::Task& task : run.tasks) {
    last = std::max(last, task.status.last_step);
    if (begun == 0 || task.status.started < begun) begun = task.status.started;
    now = std::max(now, task.status.written);
  }
  std::string text = step < 0 ? "no step yet" : fmt::format("step {}", step);
  if (last >= 0) text += fmt::format(" of {}", last);
  if (rate > 0) text += fmt::format(", {} steps/s", rate_text(rate));
  if (last > step && step >= 0 && rate > 0)
    text += fmt::format(", {} left", human_duration(static_cast<double>(last - step) / rate));
  text += fmt::format("; running for {}", human_duration(now - begun));
  if (run.missing > 0)
    text += fmt::format("; {} task{} not heard of", run.missing, run.missing == 1 ? "" : "s");
  return text;
}

std::string clock_text(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// The last lines of all tasks, by time.
std::vector<std::string> log_lines(const LiveRun& run, size_t most) {
  std::vector<std::pair<double, std::string>> lines;
  for (const LiveRun::Task& task : run.tasks) {
    for (const auto& line : task.status.log) {
      // A text of several lines is shown by its first one.
      const std::string first = line.text.substr(0, line.text.find('\n'));
      const char* mark = line.level == "warning" ? "W" : line.level == "error" ? "E" : " ";
      lines.emplace_back(line.time, fmt::format("{} {} {}: {}", mark, clock_text(line.time),
                                                printable(task.status.task), printable(first)));
    }
  }
  std::ranges::stable_sort(lines, {}, &std::pair<double, std::string>::first);
  std::vector<std::string> last;
  for (size_t l = lines.size() - std::min(most, lines.size()); l < lines.size(); ++l)
    last.push_back(std::move(lines[l].second));
  return last;
}

// What is not of one replica: saves that a thread writes, measures, errors.
std::vector<std::string> notes_of(const LiveRun& run) {
  std::vector<std::string> notes;
  for (const LiveRun::Task& task : run.tasks) {
    const std::string name = printable(task.status.task);
    if (task.status.earlier_starts > 0) {
      notes.push_back(fmt::format("{} was started again: its whole run has {} earlier start{}",
                                  name, task.status.earlier_starts,
                                  task.status.earlier_starts == 1 ? "" : "s"));
    }
    if (task.status.saving >= 0)
      notes.push_back(fmt::format("{} writes the checkpoint of step {}", name, task.status.saving));
    if (!task.status.collective.empty() && task.status.collective_seconds > 1) {
      notes.push_back(fmt::format("{} waits in {} for {}", name, printable(task.status.collective),
                                  human_duration(task.status.collective_seconds)));
    }
    std::string measures;
    for (const auto& [measure, value] : task.status.measures) {
      measures +=
          fmt::format("{}{} {:.3g}", measures.empty() ? "" : ", ", printable(measure), value);
    }
    if (!measures.empty()) notes.push_back(name + ": " + measures);
    if (!task.status.error.empty())
      notes.push_back(fmt::format("{} {}: {}", name, task.status.end,
                                  printable_beginning(task.status.error, 300)));
  }
  return notes;
}

}  // namespace

std::vector<std::string> top_lines(const LiveRun& run, const TopView& view) {
  std::vector<std::string> lines{head_of(run)};
  if (!run.straggler_text.empty()) {
    const std::string text = printable(run.straggler_text);
    lines.push_back(view.color ? "\033[31m" + cut_to_columns(text, view.columns) + "\033[m" : text);
  }
  for (std::string& note : notes_of(run)) lines.push_back(std::move(note));
  lines.emplace_back();
  const bool epochs =
      std::ranges::any_of(run.replicas, [](const auto& one) { return one.now.epoch >= 0; });
  const bool devices = std::ranges::any_of(
      run.tasks, [](const auto& task) { return task.status.device_memory > 0; });
  std::vector<std::string> titles{"task", "state", ">step"};
  if (epochs) titles.emplace_back(">epoch");
  titles.insert(titles.end(), {">steps/s", ">ms a step", ">memory"});
  if (devices) titles.emplace_back(">device memory");
  titles.insert(titles.end(), {"doing", "last steps", "whole run"});
  TextTable table(titles);
  for (const LiveReplica& replica : run.replicas) {
    const LiveRun::Task& task = run.tasks[replica.task];
    const bool runs = task.state == LiveState::kRunning;
    std::vector<std::string> cells{replica.now.task, state_of(task),
                                   replica.now.step < 0 ? "" : std::to_string(replica.now.step)};
    if (epochs) cells.push_back(replica.now.epoch < 0 ? "" : std::to_string(replica.now.epoch));
    cells.insert(cells.end(),
                 {rate_text(replica, task), ms_text(replica.mean), bytes_text(task.status.memory)});
    if (devices) cells.push_back(bytes_text(task.status.device_memory));
    cells.insert(cells.end(),
                 {runs ? doing(replica) : "", bar_of(replica.mean), bar_of(replica.now.whole)});
    table.add(std::move(cells));
  }
  const std::vector<std::string> rows = split(table.text(""), '\n');
  // A terminal that is too low shows the first tasks.
  const size_t room = view.rows > 0 ? static_cast<size_t>(std::max(3, view.rows - 2)) : SIZE_MAX;
  for (size_t r = 0; r < rows.size() && lines.size() < room; ++r) {
    if (rows[r].empty()) continue;
    const std::string row = cut_to_columns(rows[r], view.columns);
    const bool whole = row == rows[r];
    lines.push_back(view.color && whole && r > 0 ? colored(row, run.replicas[r - 1]) : row);
  }
  lines.emplace_back(
      "i input  c compute  o other  p program  ~ communication  w waiting  s saving  e evaluating  "
      "x exporting  v serving  - starting");
  if (view.rows > 0 && lines.size() + 2 < static_cast<size_t>(view.rows)) {
    lines.emplace_back();
    for (std::string& line : log_lines(run, static_cast<size_t>(view.rows) - lines.size() - 1))
      lines.push_back(std::move(line));
  }
  for (std::string& line : lines) {
    if (line.find('\033') == std::string::npos) line = cut_to_columns(line, view.columns);
  }
  return lines;
}

std::vector<std::string> plain_lines(const LiveRun& run) {
  std::vector<std::string> lines;
  for (const LiveReplica& replica : run.replicas) {
    const LiveRun::Task& task = run.tasks[replica.task];
    std::string line = fmt::format("{}: {}", printable(replica.now.task), state_of(task));
    if (replica.now.step >= 0) line += fmt::format(", step {}", replica.now.step);
    if (replica.rate > 0) {
      line += fmt::format(", {} {}/s", rate_text(replica.rate),
                          task.status.trains() ? "steps" : "batches");
    }
    if (task.state == LiveState::kRunning) line += ", " + doing(replica);
    lines.push_back(std::move(line));
  }
  if (!run.straggler_text.empty()) lines.push_back(printable(run.straggler_text));
  return lines;
}

bool all_ended(const LiveRun& run) {
  return !run.tasks.empty() && std::ranges::all_of(run.tasks, [](const LiveRun::Task& task) {
    return task.state != LiveState::kRunning && task.state != LiveState::kSilent;
  });
}

}  // namespace muster::app
