#include "muster/launch/internal/processor_times.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

#include "muster/base/strings.h"

namespace muster::inline v0_1::launch::internal {

// See proc(5), stat.
std::optional<ProcessorTimes::Process> ProcessorTimes::read(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  // A process may end between the opening and the reading. Then getline() gives nothing, where an
  // iterator over the buffer would throw.
  std::string text;
  std::getline(file, text, '\0');
  // The name, in brackets, may hold anything.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  std::string word;
  Process process{.pid = pid};
  fields >> word >> process.parent >> word >> process.session;
  constexpr int kBetween = 7;  // from the terminal to the faults
  for (int i = 0; i < kBetween; ++i) fields >> word;
  for (int i = 0; i < 4; ++i) {  // user and system, its own and those of ended children
    double ticks = 0;
    if (!(fields >> ticks)) return std::nullopt;
    process.seconds += ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return process;
}

ProcessorTimes ProcessorTimes::now() {
  ProcessorTimes times;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const auto pid = parse_int(entry->path().filename().string());
    if (!pid) continue;
    if (const auto process = read(static_cast<pid_t>(*pid))) times.processes_.push_back(*process);
  }
  return times;
}

std::optional<double> ProcessorTimes::of_task(pid_t leader) const {
  if (std::ranges::find(processes_, leader, &Process::pid) == processes_.end()) return std::nullopt;
  std::set<pid_t> task{leader};
  // A child may have a smaller number than its parent, when numbers have been used up once.
  for (size_t before = 0; before != task.size();) {
    before = task.size();
    for (const Process& process : processes_) {
      if (process.session == leader || task.contains(process.parent)) task.insert(process.pid);
    }
  }
  double seconds = 0;
  for (const Process& process : processes_) {
    if (task.contains(process.pid)) seconds += process.seconds;
  }
  return seconds;
}

}  // namespace muster::inline v0_1::launch::internal
