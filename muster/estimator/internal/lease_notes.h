// The notes that the chief and an evaluator leave each other in their leases. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1::internal {

// Names of the leases in a model_dir.
inline constexpr const char* kChiefLease = "chief";
inline constexpr const char* kEvaluatorLease = "evaluator";

// The note of both: in the chief's lease the step at which training is through, in the evaluator's
// the step that it has read there. Empty while there is none.
std::string note_of_end(std::optional<int64_t> step);
// Reads it; nothing for a note that is none.
std::optional<int64_t> end_in_note(const std::string& note);

// How a chief failed in a way that a restart does not mend.
struct Failure {
  std::string run{};      // MUSTER_RUN_ID of the chief, if it was set
  std::string message{};  // the first line of its error
  bool operator==(const Failure&) const = default;
};
// The chief's note then, and its reading; nothing for a note that is none.
std::string note_of_failure(const Failure& failure);
std::optional<Failure> failure_in_note(const std::string& note);

// "evaluator:0, process 12 on host", for people.
std::string describe_process(const cluster::Task& task);

}  // namespace muster::inline v0_1::internal
