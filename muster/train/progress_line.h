// How far a run is, as one line. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// The content of a progress line.
struct ProgressFacts {
  int64_t step = 0;
  int64_t last_step = -1;  // where the run will end; -1: unknown
  double loss = 0;
  std::map<std::string, double> metrics{};
  double examples_per_second = 0;  // 0: not known yet; then steps_per_second is not either
  double steps_per_second = 0;

  // -1 if it is unknown.
  double seconds_left() const;
};

// A loss, a metric or a learning rate as people read it: four decimals, and for smaller numbers
// three significant digits: "0.3121", "0.0001", "1.23e-05".
MUSTER_PART_EXPORT std::string value_text(double value);

// "step 200/1406 (14%)  loss 0.3121  accuracy 0.91  24310 examples/s  190.0 steps/s  0:06 left".
std::string progress_line(const ProgressFacts& facts);

// The same with a bar, for a terminal of that many columns: "step 200/1406 ━━╸───── 14%  loss ...".
// Without `unicode`, of # and -. Parts that do not fit are left out from the right, the time left
// last.
MUSTER_PART_EXPORT std::string progress_bar(const ProgressFacts& facts, int columns, bool unicode);

// Whether the locale of this process says that its terminal reads UTF-8 (LC_ALL, LC_CTYPE, LANG).
MUSTER_PART_EXPORT bool terminal_reads_unicode();

}  // namespace muster::inline v0_1
