#include "muster/formats/custom_scalars.h"

#include <utility>

#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::Builder;

// By the field numbers of the Custom Scalars plugin.
namespace wire {
enum class Layout : uint32_t { kCategory = 2 };  // Category, repeated
enum class Category : uint32_t {
  kTitle = 1,   // string
  kChart = 2,   // Chart, repeated
  kClosed = 3,  // bool
};
enum class Chart : uint32_t {
  kTitle = 1,      // string
  kMultiline = 2,  // Multiline
  kMargin = 3,     // Margin
};
enum class Multiline : uint32_t { kTag = 1 };  // string, repeated
enum class Margin : uint32_t { kSeries = 1 };  // Series, repeated
enum class Series : uint32_t {
  kValue = 1,  // string
  kLower = 2,  // string
  kUpper = 3,  // string
};
}  // namespace wire

std::string encode_chart(const CustomChart& from) {
  Builder<wire::Chart> to;
  to.add_bytes(wire::Chart::kTitle, from.title);
  if (from.margins.empty()) {
    Builder<wire::Multiline> lines;
    for (const std::string& tag : from.tags) lines.put_bytes(wire::Multiline::kTag, tag);
    to.put_bytes(wire::Chart::kMultiline, lines.bytes());
    return to.take();
  }
  Builder<wire::Margin> margin;
  for (const MarginSeries& one : from.margins) {
    Builder<wire::Series> series;
    series.put_bytes(wire::Series::kValue, one.value);
    series.put_bytes(wire::Series::kLower, one.lower);
    series.put_bytes(wire::Series::kUpper, one.upper);
    margin.put_bytes(wire::Margin::kSeries, series.bytes());
  }
  to.put_bytes(wire::Chart::kMargin, margin.bytes());
  return to.take();
}

}  // namespace

SummaryValue custom_scalars_layout(const std::vector<CustomCategory>& categories) {
  Builder<wire::Layout> to;
  for (const CustomCategory& from : categories) {
    Builder<wire::Category> category;
    category.add_bytes(wire::Category::kTitle, from.title);
    for (const CustomChart& chart : from.charts)
      category.put_bytes(wire::Category::kChart, encode_chart(chart));
    category.add_varint(wire::Category::kClosed, from.closed);
    to.add_bytes(wire::Layout::kCategory, category.bytes());
  }
  return {std::string(kCustomScalarsTag),
          TensorSummary{
              .plugin = "custom_scalars", .type = TensorType::kString, .strings = {to.take()}}};
}

}  // namespace muster::inline v0_1::formats
