// The kinds of summaries besides scalars, histograms and texts: the bytes equal those that protobuf
// 3.21 writes for the same messages of TensorBoard.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/formats/custom_scalars.h"
#include "muster/formats/event.h"
#include "muster/formats/hparams.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

std::string hex_of(const std::string& bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte / 16];
    hex += "0123456789abcdef"[byte % 16];
  }
  return hex;
}

std::string hex_of(const Event& event) { return hex_of(encode_event(event).value()); }

Event event_of(const SummaryValue& value) { return {.values = {value}}; }

// `value` after it has been written and read.
template <typename Kind>
Kind back(const SummaryValue& value) {
  const Event event = decode_event(bytes_of(encode_event(event_of(value)).value())).value();
  EXPECT_EQ(event.values.at(0).tag, value.tag);
  return std::get<Kind>(event.values.at(0).value);
}

TEST(SummaryKinds, ImagesAndSounds) {
  const SummaryValue image{"i",
                           ImageSummary{.height = 2, .width = 3, .channels = 1, .encoded = "png"}};
  EXPECT_EQ(hex_of({.step = 5, .values = {image}}), "10052a120a100a0169220b0802100318012203706e67");
  const auto picture = back<ImageSummary>(image);
  EXPECT_EQ(picture.height, 2);
  EXPECT_EQ(picture.width, 3);
  EXPECT_EQ(picture.channels, 1);
  EXPECT_EQ(picture.encoded, "png");
  const SummaryValue audio{"a", AudioSummary{.sample_rate = 8000,
                                             .channels = 2,
                                             .frames = 4,
                                             .encoded = "RIFF",
                                             .content_type = "audio/wav"}};
  EXPECT_EQ(hex_of(event_of(audio)),
            "2a210a1f0a0161321a0d0000fa45100218042204524946462a09617564696f2f776176");
  const auto sound = back<AudioSummary>(audio);
  EXPECT_EQ(sound.sample_rate, 8000);
  EXPECT_EQ(sound.channels, 2);
  EXPECT_EQ(sound.frames, 4);
  EXPECT_EQ(sound.encoded, "RIFF");
  EXPECT_EQ(sound.content_type, "audio/wav");
}

TEST(SummaryKinds, Tensors) {
  const SummaryValue empty{"t", TensorSummary{.shape = {2, 0}}};
  EXPECT_EQ(hex_of(event_of(empty)), "2a110a0f0a0174420a08011206120208021200");
  EXPECT_EQ(back<TensorSummary>(empty).shape, (std::vector<int64_t>{2, 0}));
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  const SummaryValue whole{"t",
                           TensorSummary{.type = TensorType::kInt64, .shape = {1}, .content = one}};
  EXPECT_EQ(hex_of(event_of(whole)), "2a190a170a01744212080912041202080122080100000000000000");
  EXPECT_EQ(back<TensorSummary>(whole).type, TensorType::kInt64);
  EXPECT_EQ(back<TensorSummary>(whole).content, one);
}

TEST(SummaryKinds, TablesOfTexts) {
  const SummaryValue table{
      "x",
      TensorSummary{
          .plugin = "text", .type = TensorType::kString, .shape = {1, 2}, .strings = {"a", ""}}};
  EXPECT_EQ(hex_of(event_of(table)),
            "2a240a220a0178421108071208120208011202080242016142004a0a0a060a04746578742002");
  EXPECT_EQ(back<TensorSummary>(table).strings, (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(back<TensorSummary>(table).plugin, "text");
}

TEST(SummaryKinds, GraphsHaveShapesAndWeights) {
  const GraphDef graph{
      {{.name = "net/in", .op = "InputLayer", .output_shapes = {{-1, 4}}},
       {.name = "net/dense", .op = "Dense", .inputs = {"net/in"}, .parameters = 10}}};
  EXPECT_EQ(
      hex_of(encode_graph(graph)),
      "0a3d0a066e65742f696e120a496e7075744c617965722a270a0e5f6f75747075745f73686170657312150a13"
      "3a11120b08ffffffffffffffffff01120208040a2c0a096e65742f64656e7365120544656e73651a066e65"
      "742f696e2a100a0a706172616d65746572731202180a22020816");
  const Event read =
      decode_event(bytes_of(encode_event({.step = 3, .graph = graph}).value())).value();
  EXPECT_EQ(read.step, 3);
  ASSERT_TRUE(read.graph.has_value());
  ASSERT_EQ(read.graph->nodes.size(), 2u);
  EXPECT_EQ(read.graph->nodes[0].output_shapes, (std::vector<std::vector<int64_t>>{{-1, 4}}));
  EXPECT_EQ(read.graph->nodes[1].inputs, std::vector<std::string>{"net/in"});
  EXPECT_EQ(read.graph->nodes[1].parameters, 10);
  EXPECT_EQ(decode_graph(bytes_of("\x0a")).error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(decode_event(bytes_of("\x22\x01\x0a")).error().kind(), ErrorKind::kCorrupt);
}

TEST(SummaryKinds, HParams) {
  const auto content = [](const SummaryValue& value) {
    const auto tensor = back<TensorSummary>(value);
    EXPECT_EQ(tensor.plugin, "hparams");
    EXPECT_TRUE(tensor.shape.empty());
    EXPECT_EQ(tensor.content.size(), 4u);
    return hex_of(tensor.plugin_content);
  };
  const SummaryValue start =
      hparams_session_start({{"a", false}, {"b", 0.5}, {"c", std::string()}}, "g", 1);
  EXPECT_EQ(start.tag, "_hparams_/session_start_info");
  EXPECT_EQ(content(start),
            "1a2e0a070a0161120220000a0e0a0162120911000000000000e03f0a070a016312021a0022016729000000"
            "000000f03f");
  const SummaryValue end = hparams_session_end(SessionResult::kSuccess, 2);
  EXPECT_EQ(end.tag, "_hparams_/session_end_info");
  EXPECT_EQ(content(end), "220b0801110000000000000040");
  const SummaryValue experiment =
      hparams_experiment({{.name = "b", .domain = {0.5, 0.0}}, {.name = "c", .display_name = "C"}},
                         {{.tag = "loss", .group = "eval", .display_name = "Loss"}}, 3);
  EXPECT_EQ(experiment.tag, "_hparams_/experiment");
  EXPECT_EQ(content(experiment),
            "1246190000000000000840221d0a016220032a160a0911000000000000e03f0a0911000000000000000022"
            "060a01631201432a140a0c0a046576616c12046c6f73731a044c6f7373");
}

TEST(SummaryKinds, LayoutsOfCustomScalars) {
  const SummaryValue layout = custom_scalars_layout(
      {{.title = "k",
        .charts = {{.title = "m", .tags = {"loss.*", "x"}}, {.margins = {{"v", "l", "u"}}}},
        .closed = true}});
  EXPECT_EQ(layout.tag, "custom_scalars__config__");
  const auto tensor = back<TensorSummary>(layout);
  EXPECT_EQ(tensor.plugin, "custom_scalars");
  EXPECT_TRUE(tensor.shape.empty());
  ASSERT_EQ(tensor.strings.size(), 1u);
  EXPECT_EQ(hex_of(tensor.strings[0]),
            "12260a016b12100a016d120b0a066c6f73732e2a0a0178120d1a0b0a090a017612016c1a01751801");
}

TEST(SummaryKinds, RefusesTextsAndBytesInOneTensor) {
  const TensorSummary both{.type = TensorType::kString, .content = "a", .strings = {"b"}};
  EXPECT_THAT(encode_event(event_of({"both", both})).error().message(), HasSubstr("'both'"));
}

TEST(SummaryKinds, AnyFlipIsAnAnswerNotACrash) {
  const std::string bytes = encode_event(event_of({"x", TensorSummary{.plugin = "text",
                                                                      .type = TensorType::kString,
                                                                      .shape = {1, 2},
                                                                      .strings = {"a", "b"}}}))
                                .value();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Result<Event> event = decode_event(bytes_of(damaged));
    if (!event.ok()) {
      EXPECT_EQ(event.error().kind(), ErrorKind::kCorrupt);
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::formats
