// The record of the examples that a run has used (RunConfig::audit), in files of the folder "audit"
// of its model_dir, and the check of that record. An example is named by its epoch and its place in
// the order of that epoch, which is a function of the run's seed and the data set. Values and pure
// functions; thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// The examples [begin, end) of an epoch.
struct AuditRange {
  int64_t epoch = 0;
  int64_t begin = 0;
  int64_t end = 0;
  friend auto operator<=>(const AuditRange&, const AuditRange&) = default;
};

// The steps between two saves of one task, and the examples that they used.
struct AuditSegment {
  // The number of this start of the run, from 1, and the step at which it began. What earlier
  // starts did after that step was lost with them, and does not count.
  int64_t attempt = 1;
  int64_t from_step = 0;
  bool new_order = false;  // this start began its input again, with examples in another order
  // The task whose data this is, where each task reads data of its own; else 0 of 1.
  int64_t task = 0;
  int64_t tasks = 1;
  int64_t first_step = 0, last_step = 0;
  std::vector<AuditRange> used{};       // by steps that changed the weights
  std::vector<AuditRange> left_out{};   // by steps whose loss or gradients were not finite
  std::map<int64_t, int64_t> epochs{};  // the examples of each epoch that ended here
  int64_t rows = 0;                     // that the updates report, over all replicas
  bool operator==(const AuditSegment&) const = default;
};

// The name of its file in the folder "audit".
std::string audit_file_name(const AuditSegment& segment);
// The attempt that such a name begins with; 0 for another name.
int64_t attempt_of_audit_file(std::string_view name);
// As JSON, and back. Corrupt for other text, naming `path`.
std::string encode_audit_segment(const AuditSegment& segment);
Result<AuditSegment> parse_audit_segment(std::string_view text, const std::string& path);

// Adds a range, and joins it with the last one where they touch.
void add_range(std::vector<AuditRange>& ranges, const AuditRange& range);

// What became of the examples of one epoch, of one task's data.
struct AuditEpoch {
  int64_t order = 0;  // how often the input was begun again before
  int64_t task = 0, tasks = 1;
  int64_t epoch = 0;
  int64_t size = -1;  // -1: the epoch has not ended, and its last examples are to come
  int64_t once = 0;   // how many examples were used exactly once
  std::vector<AuditRange> twice{};     // used twice or more
  std::vector<AuditRange> never{};     // not used, though later ones were, or the epoch has ended
  std::vector<AuditRange> left_out{};  // part of a step that was left out
};

// What the record of a run says.
struct Audit {
  int64_t attempts = 0;
  int64_t last_step = 0;
  int64_t lost_steps = 0;  // made, lost with a start of the run, and made again or given up
  std::vector<std::pair<int64_t, int64_t>> missing_steps{};  // first and last: without a record
  std::vector<std::string> doubts{};  // what the record contradicts itself in
  std::vector<AuditEpoch> epochs{};

  // Whether each example was used once, as far as the record goes.
  bool clean() const;
};

// Judges the segments of a run, in any order.
Audit audit(std::vector<AuditSegment> segments);

}  // namespace muster::inline v0_1::formats
