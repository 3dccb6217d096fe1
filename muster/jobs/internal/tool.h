// The command lines of other systems' tools: kubectl, gcloud. Thread safety: any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "muster/launch/subprocess.h"

namespace muster::inline v0_1::jobs::internal {

// A tool, and what was asked of it, for errors.
struct ToolCall {
  std::vector<std::string> argv{};  // argv[0] is a path, or a name in PATH
  std::string what{};               // "cannot create the job 'a'"
  std::string install{};            // the hint when the tool is not there
  std::string asks{};               // "Slurm", who answers through it
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
};

// For so long nobody wonders what is waited for.
constexpr std::chrono::milliseconds kSilence = std::chrono::seconds(3);

// Runs the tool to its end. One that has not ended after kSilence is told of in the log, with the
// time that is left to it. Throws NotFound when it is not there, Timeout at the deadline,
// Unavailable when it was killed, and did not answer.
launch::CompletedProcess run_tool(const ToolCall& call);

// Whether `tool`, a path or a name in PATH, can be run.
bool tool_is_there(const std::string& tool);

// What a tool complained of, on one line: its error output without its own "error:" before it.
std::string complaint(const launch::CompletedProcess& ran);

}  // namespace muster::inline v0_1::jobs::internal
