// The summaries of a model function, and which of them are written.
#include "muster/train/summaries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/exchange.h"
#include "muster/distribute/variable_table.h"
#include "muster/formats/event.h"
#include "muster/formats/image.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/report_hooks.h"
#include "muster/train/step_summaries.h"
#include "muster/train/summary_calls.h"

namespace muster::inline v0_1 {
namespace {

using formats::SummaryValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SummariesTest : public ::testing::Test {
 protected:
  std::vector<SummaryValue> take() { return calls_.take(*exchange_); }
  std::map<std::string, decltype(SummaryValue::value)> taken() {
    std::map<std::string, decltype(SummaryValue::value)> by_tag;
    for (SummaryValue& value : take()) by_tag[value.tag] = std::move(value.value);
    return by_tag;
  }

  distribute::VariableTable variables_{/*seed=*/1, at::kCPU};
  std::unique_ptr<distribute::Exchange> exchange_ = distribute::make_lone_exchange();
  Summaries summaries_{variables_};
  internal::SummaryCalls calls_{summaries_};
};

TEST_F(SummariesTest, NothingIsComputedWhereNothingIsDue) {
  int calls = 0;
  const auto value = [&] {
    ++calls;
    return torch::ones({});
  };
  const auto show = [&] {
    summaries_.scalar("a", value);
    summaries_.histogram("b", value);
    summaries_.tensor("c", value);
    summaries_.scalar("d", 1.5);
    // No image at all, but it is not read.
    summaries_.image("e", [&] { return torch::ones({calls > 0 ? 1 : 0, 2, 2, 1}); });
  };
  show();
  EXPECT_FALSE(summaries_.due());
  calls_.begin({.due = true, .rows = 0});
  show();
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(take().empty());
  calls_.begin({.due = true, .rows = 4});
  EXPECT_TRUE(summaries_.due());
  show();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(take().size(), 5u);
  EXPECT_TRUE(take().empty()) << "what was taken is forgotten";
}

TEST_F(SummariesTest, ScalarsAreMeansOfRows) {
  calls_.begin({.due = true, .batch = 0, .rows = 3});
  summaries_.scalar("rate", torch::tensor(2.0));
  summaries_.scalar("same", 0.1);
  calls_.begin({.due = true, .batch = 1, .rows = 1});
  summaries_.scalar("rate", 6.0);
  summaries_.scalar("same", 0.1);
  summaries_.scalar("nan", NAN);
  const auto values = taken();
  EXPECT_EQ(std::get<float>(values.at("rate")), 3);
  EXPECT_EQ(std::get<float>(values.at("same")), 0.1f);
  EXPECT_TRUE(std::isnan(std::get<float>(values.at("nan"))));
}

TEST_F(SummariesTest, HistogramsAddUpButNotThoseOfVariables) {
  const Tensor& kernel =
      variables_
          .get_or_create({.name = "kernel",
                          .shape = {6},
                          .initializer = [](const Shape& shape, DType,
                                            RandomKey) { return torch::ones(shape); }})
          .value();
  for (int64_t batch = 0; batch < 2; ++batch) {
    calls_.begin({.due = true, .batch = batch, .rows = 2});
    summaries_.histogram("values", torch::arange(4));
    summaries_.histogram("kernel", kernel);
  }
  const auto values = taken();
  EXPECT_EQ(std::get<formats::Histogram>(values.at("values")).count, 8);
  EXPECT_EQ(std::get<formats::Histogram>(values.at("kernel")).count, 6);
  calls_.begin({.due = true, .first = false, .rows = 2});
  summaries_.histogram("kernel", kernel);
  summaries_.text("note", "of the second replica");
  EXPECT_TRUE(take().empty());
}

TEST_F(SummariesTest, ImagesArePngs) {
  const Tensor images = torch::zeros({4, 2, 3, 1});
  images[1].fill_(0.5);
  images[2][0][0][0] = 7;
  images[2][0][1][0] = NAN;
  for (int64_t batch = 0; batch < 2; ++batch) {
    calls_.begin({.due = true, .batch = batch, .rows = 4});
    summaries_.image("digits", images);
    summaries_.image("one", (images * 255).to(at::kByte).expand({4, 2, 3, 3}), {.max_outputs = 1});
  }
  const auto values = taken();
  ASSERT_EQ(values.size(), 4u) << "the first batch alone";
  const auto& third = std::get<formats::ImageSummary>(values.at("digits/image/2"));
  EXPECT_EQ(third.height, 2);
  EXPECT_EQ(third.width, 3);
  EXPECT_EQ(third.channels, 1);
  const auto pixels =
      formats::decode_image(bytes_of(third.encoded), "image", {.channels = 1}).value();
  EXPECT_EQ(pixels.pixels[0], 255) << "cut off";
  EXPECT_EQ(pixels.pixels[1], 0) << "NaN";
  const auto& second = std::get<formats::ImageSummary>(values.at("digits/image/1"));
  EXPECT_EQ(
      formats::decode_image(bytes_of(second.encoded), "image", {.channels = 1}).value().pixels[0],
      128);
  EXPECT_EQ(std::get<formats::ImageSummary>(values.at("one/image")).channels, 3);
}

TEST_F(SummariesTest, SoundsTextsAndTensors) {
  calls_.begin({.due = true, .rows = 2});
  {
    const auto scope = summaries_.scope("outer");
    const auto inner = summaries_.scope("inner");
    summaries_.audio("noise", torch::zeros({2, 5, 2}), {.sample_rate = 8000, .max_outputs = 1});
  }
  summaries_.text("note", "**bold**");
  summaries_.text_table("table", {{"a", "b"}, {"c", "d"}});
  summaries_.tensor("raw", torch::tensor({{1, 2, 3}}, at::kInt));
  summaries_.custom_scalars({{.title = "all", .charts = {{.tags = {"loss"}}}}});
  const auto values = taken();
  const auto& sound = std::get<formats::AudioSummary>(values.at("outer/inner/noise/audio"));
  EXPECT_EQ(sound.frames, 5);
  EXPECT_EQ(sound.channels, 2);
  EXPECT_EQ(sound.encoded.size(), 44u + 5 * 2 * 2);
  EXPECT_EQ(std::get<std::string>(values.at("note")), "**bold**");
  EXPECT_THAT(std::get<formats::TensorSummary>(values.at("table")).strings,
              ElementsAre("a", "b", "c", "d"));
  const auto& raw = std::get<formats::TensorSummary>(values.at("raw"));
  EXPECT_EQ(raw.type, formats::TensorType::kInt32);
  EXPECT_THAT(raw.shape, ElementsAre(1, 3));
  EXPECT_EQ(raw.content, std::string("\1\0\0\0\2\0\0\0\3\0\0\0", 12));
  EXPECT_TRUE(values.contains("custom_scalars__config__"));
  calls_.begin({.due = true, .rows = 2});
  summaries_.custom_scalars({{.title = "all"}});
  EXPECT_TRUE(take().empty()) << "a layout is written once";
}

// The step was dropped: its values are dropped, and the next step writes them.
TEST_F(SummariesTest, ALayoutThatWasDroppedIsWrittenByTheNextStep) {
  for (int step = 0; step < 2; ++step) {
    calls_.clear();
    calls_.begin({.due = true, .rows = 2});
    summaries_.custom_scalars({{.title = "all", .charts = {{.tags = {"loss"}}}}});
  }
  EXPECT_FALSE(take().empty());
}

TEST_F(SummariesTest, SaysWhatIsWrong) {
  const auto message = [&](const std::function<void()>& show) {
    calls_.begin({.due = true, .rows = 2});
    const Error error = error_of(show);
    calls_.clear();
    return std::string(error.what());
  };
  EXPECT_THAT(message([&] { summaries_.scalar("", 1.0); }), HasSubstr("no name"));
  EXPECT_THAT(message([&] { (void)summaries_.scope(""); }), HasSubstr("no name"));
  EXPECT_THAT(message([&] {
                summaries_.scalar("x", 1.0);
                summaries_.scalar("x", 2.0);
              }),
              HasSubstr("\"x\" was given twice"));
  EXPECT_THAT(message([&] { summaries_.scalar("x", torch::ones({2})); }),
              HasSubstr("scalar summary \"x\" got float32[2]"));
  EXPECT_THAT(message([&] { summaries_.histogram("x", torch::full({1}, NAN)); }),
              HasSubstr("histogram summary \"x\""));
  EXPECT_THAT(message([&] {
                summaries_.image("x", torch::ones({2, 4, 4}));
              }),
              HasSubstr("image summary \"x\" got float32[2, 4, 4]"));
  EXPECT_THAT(message([&] {
                summaries_.image("x", torch::ones({1, 2, 2, 1}), {.max_outputs = 0});
              }),
              HasSubstr("max_outputs = 0"));
  EXPECT_THAT(message([&] {
                summaries_.audio("x", torch::ones({2, 4}), {.sample_rate = 0});
              }),
              HasSubstr("sample_rate = 0"));
  EXPECT_THAT(message([&] { summaries_.audio("x", torch::ones({2})); }),
              HasSubstr("audio summary \"x\" got float32[2]"));
  EXPECT_THAT(message([&] {
                summaries_.text_table("x", {{"a", "b"}, {"c"}});
              }),
              HasSubstr("1 cells in row 1"));
  EXPECT_THAT(message([&] { summaries_.tensor("x", torch::ones({1}, at::kComplexFloat)); }),
              HasSubstr("tensor summary \"x\""));
}

TEST_F(SummariesTest, OneNameIsOfOneKind) {
  calls_.begin({.due = true, .batch = 0, .rows = 2});
  summaries_.scalar("x", 1.0);
  calls_.begin({.due = true, .batch = 1, .rows = 2});
  summaries_.histogram("x", torch::ones({2}));
  EXPECT_THAT(error_of([&] { take(); }).message(), HasSubstr("\"x\" is of two kinds"));
}

TEST_F(SummariesTest, AreDueEveryNSteps) {
  StepSummaries steps(summaries_, /*every_steps=*/3, /*first=*/true);
  std::vector<int64_t> written;
  for (int64_t step = 1; step <= 7; ++step) {
    for (int64_t batch = 0; batch < 2; ++batch) {
      steps.begin_batch(step, batch, /*rows=*/4);
      summaries_.scalar("x", static_cast<double>(batch));
    }
    const auto* values = steps.merge(*exchange_);
    if (values == nullptr) continue;
    written.push_back(step);
    ASSERT_EQ(values->size(), 1u);
    EXPECT_EQ(std::get<float>((*values)[0].value), 0.5f);
  }
  EXPECT_THAT(written, ElementsAre(1, 4, 7));
}

TEST_F(SummariesTest, AreWrittenWithTheLossTheGraphAndTheHParams) {
  TempDirectory directory;
  ManualClock clock;
  const formats::GraphDef graph{{{.name = "net/dense", .op = "Dense"}}};
  const std::vector<SummaryValue> values{{"x", 1.0f}}, own{{"loss", 9.0f}};
  {
    SummaryHook hook(
        std::make_shared<summary::EventWriter>(directory.path(), local_file_system(), clock), 1, 0,
        clock, {{"rate", 0.5}});
    hook.begin({.start_step = 0, .graph = &graph});
    hook.after_step({.global_step = 1, .loss = 2, .summaries = &values});
    hook.after_step({.global_step = 2, .loss = 2, .summaries = &own});
    hook.end(2);
  }
  const auto files = formats::list_event_files(local_file_system(), directory.path()).value();
  int graphs = 0;
  std::map<std::string, std::vector<float>> scalars;
  std::vector<std::string> hparams;
  for (const auto& event : formats::read_events(local_file_system(), files.at(0)).value().events) {
    graphs += event.graph ? 1 : 0;
    for (const SummaryValue& value : event.values) {
      if (const auto* number = std::get_if<float>(&value.value)) {
        scalars[value.tag].push_back(*number);
      } else {
        hparams.push_back(value.tag);
      }
    }
  }
  EXPECT_EQ(graphs, 1);
  EXPECT_THAT(scalars["x"], ElementsAre(1));
  EXPECT_THAT(scalars["loss"], ElementsAre(2, 9)) << "the model's own takes its place";
  EXPECT_THAT(hparams, ElementsAre("_hparams_/session_start_info", "_hparams_/session_end_info"));
}

}  // namespace
}  // namespace muster::inline v0_1
