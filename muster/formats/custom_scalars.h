// The layout of TensorBoard's Custom Scalars page: which scalars share a chart.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::formats {

// A curve with a band around it; each field is the tag of a scalar.
struct MarginSeries {
  std::string value{};
  std::string lower{};
  std::string upper{};
};

// A chart of `tags`, or of `margins` if there are any.
struct CustomChart {
  std::string title{};
  std::vector<std::string> tags{};  // regular expressions, for whole tags
  std::vector<MarginSeries> margins{};
};

// Charts under a heading that can be collapsed.
struct CustomCategory {
  std::string title{};
  std::vector<CustomChart> charts{};
  bool closed = false;  // collapsed initially
};

constexpr std::string_view kCustomScalarsTag = "custom_scalars__config__";

// Returns the summary with the layout; the page reads it from each run's first event file.
MUSTER_EXPORT SummaryValue custom_scalars_layout(const std::vector<CustomCategory>& categories);

}  // namespace muster::inline v0_1::formats
