#include "muster/board/plugin_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/bytes.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1::board {
namespace {

using formats::SummaryValue;
using formats::TensorSummary;
using formats::TensorType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string doubles(const std::vector<double>& numbers) {
  std::string content;
  for (const double number : numbers) append_little_endian(content, number);
  return content;
}

TEST(PluginValues, AHistogramOfTensorFlow2) {
  const SummaryValue value{"h", TensorSummary{.plugin = "histograms",
                                              .type = TensorType::kFloat64,
                                              .shape = {2, 3},
                                              .content = doubles({-1, 0, 3, 0, 2, 5})}};
  const auto histogram = histogram_of(value);
  ASSERT_TRUE(histogram);
  EXPECT_EQ(histogram->min, -1);
  EXPECT_EQ(histogram->max, 2);
  EXPECT_EQ(histogram->count, 8);
  EXPECT_THAT(histogram->limits, ElementsAre(0, 2));
  EXPECT_THAT(histogram->counts, ElementsAre(3, 5));
  const SummaryValue odd{
      "h", TensorSummary{
               .plugin = "histograms", .type = TensorType::kFloat64, .content = doubles({1, 2})}};
  EXPECT_FALSE(histogram_of(odd));
  EXPECT_FALSE(histogram_of({"h", 1.0F}));
}

TEST(PluginValues, ImagesSoundsAndTexts) {
  EXPECT_THAT(images_of({"i", TensorSummary{.plugin = "images",
                                            .type = TensorType::kString,
                                            .shape = {4},
                                            .strings = {"2", "3", "one", "two"}}}),
              ElementsAre("one", "two"));
  EXPECT_THAT(images_of({"i", TensorSummary{.plugin = "images",
                                            .type = TensorType::kString,
                                            .strings = {"2", "3"}}}),
              IsEmpty());
  EXPECT_THAT(sounds_of({"a", TensorSummary{.plugin = "audio",
                                            .type = TensorType::kString,
                                            .shape = {2, 2},
                                            .strings = {"one", "label", "two", "label"}}}),
              ElementsAre("one", "two"));
  EXPECT_THAT(texts_of({"t", TensorSummary{.plugin = "text",
                                           .type = TensorType::kString,
                                           .shape = {2},
                                           .strings = {"a", "b"}}})
                  ->texts,
              ElementsAre("a", "b"));
}

TEST(PluginValues, ACurve) {
  std::string content;
  for (const float number : {9.F, 5.F, 3.F, 0.F, 1.F, 4.F, 1.F, 5.F, 0.75F, 1.F, 0.9F, 0.5F})
    append_little_endian(content, number);
  const auto curve = curve_of({"p", TensorSummary{.plugin = "pr_curves",
                                                  .type = TensorType::kFloat32,
                                                  .shape = {6, 2},
                                                  .content = content}});
  ASSERT_TRUE(curve);
  EXPECT_THAT(curve->precision, ElementsAre(0.75, 1));
  EXPECT_THAT(curve->recall, ElementsAre(0.9F, 0.5));
  EXPECT_THAT(curve->true_positives, ElementsAre(9, 5));
}

// What formats writes is read back.
TEST(PluginValues, Sessions) {
  const auto start = session_start_of(
      formats::hparams_session_start({{"a", 1.5}, {"b", true}, {"c", "text"}}, "group", 7));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->started, 7);
  EXPECT_EQ(start->hparams.at("a"), formats::HParam(1.5));
  EXPECT_EQ(start->hparams.at("b"), formats::HParam(true));
  EXPECT_EQ(start->hparams.at("c"), formats::HParam("text"));
  const auto end =
      session_end_of(formats::hparams_session_end(formats::SessionResult::kFailure, 9));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->result, formats::SessionResult::kFailure);
  EXPECT_EQ(end->ended, 9);
  EXPECT_FALSE(session_end_of({"x", 1.0F}));
  EXPECT_FALSE(session_start_of({"x", TensorSummary{.plugin_content = "\x1a\xff"}}));
}

}  // namespace
}  // namespace muster::inline v0_1::board
