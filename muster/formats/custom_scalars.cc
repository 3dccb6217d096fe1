#include "muster/formats/custom_scalars.h"

#include <utility>

#include "muster/formats/internal/protobuf.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::add_text;
using internal::Builder;

// By the field numbers of the Custom Scalars plugin.
namespace wire {
enum class Layout : protozero::pbf_tag_type { kCategory = 2 };  // Category, repeated
enum class Category : protozero::pbf_tag_type {
  kTitle = 1,   // string
  kChart = 2,   // Chart, repeated
  kClosed = 3,  // bool
};
enum class Chart : protozero::pbf_tag_type {
  kTitle = 1,      // string
  kMultiline = 2,  // Multiline
  kMargin = 3,     // Margin
};
enum class Multiline : protozero::pbf_tag_type { kTag = 1 };  // string, repeated
enum class Margin : protozero::pbf_tag_type { kSeries = 1 };  // Series, repeated
enum class Series : protozero::pbf_tag_type {
  kValue = 1,  // string
  kLower = 2,  // string
  kUpper = 3,  // string
};
}  // namespace wire

std::string encode_chart(const CustomChart& from) {
  std::string bytes;
  Builder<wire::Chart> to(bytes);
  add_text(to, wire::Chart::kTitle, from.title);
  std::string content;
  if (from.margins.empty()) {
    Builder<wire::Multiline> lines(content);
    for (const std::string& tag : from.tags) lines.add_string(wire::Multiline::kTag, tag);
    to.add_message(wire::Chart::kMultiline, content);
    return bytes;
  }
  Builder<wire::Margin> margin(content);
  for (const MarginSeries& one : from.margins) {
    Builder<wire::Series> series(margin, wire::Margin::kSeries);
    series.add_string(wire::Series::kValue, one.value);
    series.add_string(wire::Series::kLower, one.lower);
    series.add_string(wire::Series::kUpper, one.upper);
  }
  to.add_message(wire::Chart::kMargin, content);
  return bytes;
}

}  // namespace

SummaryValue custom_scalars_layout(const std::vector<CustomCategory>& categories) {
  std::string layout;
  Builder<wire::Layout> to(layout);
  for (const CustomCategory& from : categories) {
    Builder<wire::Category> category(to, wire::Layout::kCategory);
    add_text(category, wire::Category::kTitle, from.title);
    for (const CustomChart& chart : from.charts)
      category.add_message(wire::Category::kChart, encode_chart(chart));
    if (from.closed) category.add_bool(wire::Category::kClosed, true);
  }
  return {std::string(kCustomScalarsTag), TensorSummary{.plugin = "custom_scalars",
                                                        .type = TensorType::kString,
                                                        .strings = {std::move(layout)}}};
}

}  // namespace muster::inline v0_1::formats
