// The layout of TensorBoard's Custom Scalars page: which scalars stand in one chart.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::formats {

// A curve with a band around it; each is the tag of a scalar.
struct MarginSeries {
  std::string value{};
  std::string lower{};
  std::string upper{};
};

// A chart: of `tags`, or of `margins` where there are any.
struct CustomChart {
  std::string title{};
  std::vector<std::string> tags{};  // regular expressions, for whole tags
  std::vector<MarginSeries> margins{};
};

// Charts under a heading that can be folded.
struct CustomCategory {
  std::string title{};
  std::vector<CustomChart> charts{};
  bool closed = false;  // folded at first
};

constexpr std::string_view kCustomScalarsTag = "custom_scalars__config__";

// Gives the summary that holds the layout; the page reads the one of each run's first event file.
MUSTER_EXPORT SummaryValue custom_scalars_layout(const std::vector<CustomCategory>& categories);

}  // namespace muster::inline v0_1::formats
