#include "muster/jobs/internal/tool.h"

#include <fmt/format.h>

#include <cstdlib>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

std::string found(const std::string& tool) {
  const char* path = std::getenv("PATH");
  return launch::find_program(tool, path != nullptr ? path : "");
}

int64_t seconds(std::chrono::milliseconds time) {
  return std::chrono::ceil<std::chrono::seconds>(time).count();
}

}  // namespace

launch::CompletedProcess run_tool(const ToolCall& call) {
  std::vector<std::string> argv = call.argv;
  try {
    argv.at(0) = found(argv.at(0));
  } catch (const Error& error) {
    throw not_found(fmt::format("{}: the command {} was not found", call.what, call.argv[0]),
                    call.install);
  }
  const launch::SlowNotice notice{
      .after = kSilence, .tell = [&] {
        log::info(fmt::format("waiting for {} ({}); no answer for {} s, giving up after {} s",
                              call.asks, base_name(call.argv[0]), seconds(kSilence),
                              seconds(call.deadline)));
      }};
  launch::CompletedProcess ran = launch::run_to_end(argv, call.deadline, notice);
  if (ran.timed_out) {
    throw Error(ErrorKind::kTimeout,
                fmt::format("{}: {} did not end within {}", call.what, call.argv[0],
                            human_duration(std::chrono::duration<double>(call.deadline).count())),
                "try again; is the network slow, or does it wait for a password?");
  }
  if (ran.status.signal != 0) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("{}: {} was {}", call.what, call.argv[0], launch::explain(ran.status)),
                "try again");
  }
  return ran;
}

bool tool_is_there(const std::string& tool) {
  try {
    found(tool);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string complaint(const launch::CompletedProcess& ran) {
  std::vector<std::string> lines;
  for (const std::string& line : split(ran.err, '\n')) {
    std::string_view text = trim(line);
    for (const std::string_view prefix : {"error: ", "Error: ", "ERROR: "}) {
      if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
    }
    if (!text.empty()) lines.emplace_back(text);
  }
  return lines.empty() ? launch::explain(ran.status) : join(lines, "; ");
}

}  // namespace muster::inline v0_1::jobs::internal
