// What a task leaves in the folder "failures" of its model_dir when a run of several tasks fails:
// the error, and its last collectives. Values and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

struct FailureReport {
  // A collective, in the order of the calls.
  struct Call {
    std::string transport{};
    int64_t rank = 0, size = 1;
    int64_t number = 0;     // in its communicator, the same on all ranks
    std::string call{};     // "all_reduce #17 of 250 float32"
    double before = 0;      // seconds from the call until the report
    double seconds = -1;    // that it took; 0: not measured; below 0: it has not ended
    std::string failure{};  // why it failed; "" when it did not
    bool operator==(const Call&) const = default;
  };
  std::string task{};  // "worker 1"
  int64_t step = 0;    // the last one that it has made
  std::string error{};
  double wall_seconds = 0;  // Unix time
  std::vector<Call> calls{};
  bool operator==(const FailureReport&) const = default;
};

// As JSON, and back. Corrupt for other text, naming `path`.
std::string encode_failure_report(const FailureReport& report);
Result<FailureReport> parse_failure_report(std::string_view text, const std::string& path);

}  // namespace muster::inline v0_1::formats
