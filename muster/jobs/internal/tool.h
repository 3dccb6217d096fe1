// The command lines of other systems' tools: kubectl, gcloud. Thread safety: any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/launch/subprocess.h"

namespace muster::inline v0_1::jobs::internal {

// A call of a tool, and its purpose for errors.
struct ToolCall {
  std::vector<std::string> argv{};  // argv[0] is a path, or a name in PATH
  std::string what{};               // "cannot create the job 'a'"
  std::string install{};            // the hint if the tool does not exist
  std::string asks{};               // "Slurm", the system that answers through it
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
};

// For this long a wait needs no explanation.
constexpr std::chrono::milliseconds kSilence = std::chrono::seconds(3);

// Runs the tool to its end. If it has not ended after kSilence, the log says so, with the time that
// is left to it. Throws NotFound if the tool does not exist, Timeout at the deadline, Unavailable
// if it was killed and did not answer.
launch::CompletedProcess run_tool(const ToolCall& call);

// Whether `tool`, a path or a name in PATH, can be run.
bool tool_is_there(const std::string& tool);

// The error message of a tool, on one line: its error output without its own "error:" before it.
std::string complaint(const launch::CompletedProcess& ran);

}  // namespace muster::inline v0_1::jobs::internal
