#include "muster/board/xplane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::board {
namespace {

// A message of fields with these numbers, texts and numbers in turn.
using Text = std::pair<int, std::string>;
using Number = std::pair<int, int64_t>;
std::string message(const std::vector<Text>& texts, const std::vector<Number>& numbers = {}) {
  formats::internal::Builder<int> builder;
  for (const auto& [field, number] : numbers) builder.put_varint(field, number);
  for (const auto& [field, text] : texts) builder.put_bytes(field, text);
  return builder.take();
}

TEST(Xplane, LinesBecomeTracksAndEventsSpans) {
  const std::string step = message({}, {{1, 4}, {2, 3'000'000}, {3, 2'000'000}});
  const std::string unnamed = message({}, {{1, 5}, {2, -1}, {3, -1}});
  const std::string line = message({{2, "python"}, {4, step}, {4, unnamed}}, {{3, 1000}});
  const std::string names = message({{2, message({{2, "Step"}, {4, "Step of fit()"}})}}, {{1, 4}});
  // Metadata may come after the lines that need it.
  const std::string plane = message({{3, line}, {4, names}, {2, "/host:CPU"}});
  const std::string space = message({{1, plane}});
  const formats::Timeline timeline = timeline_of_xspace(bytes_of(space));
  ASSERT_EQ(timeline.tracks.size(), 1U);
  EXPECT_EQ(timeline.tracks[0].process_name, "/host:CPU");
  EXPECT_EQ(timeline.tracks[0].name, "python");
  ASSERT_EQ(timeline.spans.size(), 2U);
  EXPECT_EQ(timeline.spans[0].name, "Step of fit()");
  EXPECT_EQ(timeline.spans[0].begin, 4000);
  EXPECT_EQ(timeline.spans[0].end, 6000);
  EXPECT_EQ(timeline.spans[1].name, "event 5");
  EXPECT_EQ(timeline.spans[1].end, timeline.spans[1].begin) << "no time is negative";
  EXPECT_EQ(error_of([&] { timeline_of_xspace(bytes_of(space), 1); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { timeline_of_xspace(bytes_of(space.substr(0, 20))); }).kind(),
            ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1::board
