// Summaries of a model function, from the call to the event file: in every mode, and the same on
// any number of replicas.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "muster/base/temp_directory.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1 {
namespace {

using formats::Histogram;
using ::testing::ElementsAre;
using testing::examples;
using testing::quiet_config;
using testing::two_layers;

// A point of each tag.
using Points = std::map<std::string, std::map<int64_t, decltype(formats::SummaryValue::value)>>;

struct Written {
  Points points;
  std::vector<formats::GraphDef> graphs;
};

Written written_in(const std::string& directory) {
  Written written;
  FileSystem& files = local_file_system();
  for (const std::string& path : formats::list_event_files(files, directory).value()) {
    for (formats::Event& event : formats::read_events(files, path).value().events) {
      if (event.graph) written.graphs.push_back(std::move(*event.graph));
      for (formats::SummaryValue& value : event.values)
        written.points[value.tag][event.step] = std::move(value.value);
    }
  }
  return written;
}

// Every kind; the scalar is the mean of rows.
EstimatorSpec shown(const Features& features, const Labels& labels, Mode mode,
                    ModelContext& context) {
  Summaries& summary = context.summary();
  const Tensor& x = features["x"];
  summary.scalar("mean", [&] { return x.mean(); });
  summary.histogram("x", x);
  {
    const auto scope = summary.scope("first");
    summary.image("rows", [&] { return x.sigmoid().view({-1, 2, 5, 1}); }, {.max_outputs = 1});
    summary.tensor("row", [&] { return x[0]; });
  }
  summary.text("mode", mode == Mode::kTrain ? "train" : mode == Mode::kEval ? "eval" : "predict");
  return two_layers(features, labels, mode, context);
}

// Batches of `batch` rows over all replicas, of `rows` twice; the last one is smaller.
InputFn input_of(int64_t batch, int64_t rows) {
  return [=] { return examples(rows).repeat(2).global_batch(batch); };
}

Written train_on(int replicas, int64_t accumulate, const std::string& model_dir) {
  RunConfig config = quiet_config(model_dir, distribute::mirrored({.replicas = replicas}));
  config.save_summary_steps = 2;
  config.accumulate_steps = accumulate;
  Estimator(shown, config, {{"optimizer", "sgd"}, {"units", {16, 2}}})
      .train(input_of(12 / accumulate, 40), {.max_steps = 7});
  return written_in(model_dir);
}

void expect_same(const Points& points, const Points& one, const std::string& where) {
  for (const auto& [step, value] : one.at("mean")) {
    EXPECT_NEAR(std::get<float>(points.at("mean").at(step)), std::get<float>(value), 1e-6)
        << where << ", step " << step;
  }
  for (const auto& [step, value] : one.at("x")) {
    const auto& expected = std::get<Histogram>(value);
    const auto& histogram = std::get<Histogram>(points.at("x").at(step));
    EXPECT_EQ(histogram.limits, expected.limits) << where;
    EXPECT_EQ(histogram.counts, expected.counts) << where;
    EXPECT_EQ(histogram.min, expected.min);
    EXPECT_EQ(histogram.max, expected.max);
    EXPECT_NEAR(histogram.sum, expected.sum, 1e-9);
  }
}

TEST(SummariesLaw, ReplicasShowWhatOneShows) {
  TempDirectory directory;
  const Written one = train_on(1, 1, directory / "one");
  const auto& means = one.points.at("mean");
  ASSERT_EQ(means.size(), 4u);
  EXPECT_TRUE(means.contains(1) && means.contains(3) && means.contains(5) && means.contains(7));
  EXPECT_EQ(std::get<Histogram>(one.points.at("x").at(1)).count, 12 * 10);
  EXPECT_EQ(std::get<Histogram>(one.points.at("x").at(7)).count, 8 * 10);
  const std::vector<std::pair<int, int64_t>> ways{{2, 1}, {3, 1}, {1, 2}, {2, 2}};
  for (const auto& [replicas, accumulate] : ways) {
    const std::string where = fmt::format("{} replicas, {} batches", replicas, accumulate);
    const Written many = train_on(replicas, accumulate, directory / where);
    expect_same(many.points, one.points, where);
    EXPECT_EQ(many.points.at("first/rows/image").size(), 4u) << where;
    EXPECT_EQ(many.graphs.size(), 1u) << where;
  }
}

TEST(SummariesLaw, TrainingWritesAllThereIs) {
  TempDirectory directory;
  const Written written = train_on(1, 1, directory.path());
  const auto& image = std::get<formats::ImageSummary>(written.points.at("first/rows/image").at(1));
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.width, 5);
  EXPECT_THAT(std::get<formats::TensorSummary>(written.points.at("first/row").at(3)).shape,
              ElementsAre(10));
  EXPECT_EQ(std::get<std::string>(written.points.at("mode").at(1)), "train");
  EXPECT_TRUE(written.points.contains("_hparams_/session_start_info"));
  EXPECT_TRUE(written.points.contains("_hparams_/session_end_info"));
  ASSERT_EQ(written.graphs.size(), 1u);
  std::vector<std::string> nodes;
  for (const formats::NodeDef& node : written.graphs[0].nodes) nodes.push_back(node.name);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[1], "net/dense");
  EXPECT_EQ(nodes[2], "net/dense_1");
  EXPECT_EQ(written.graphs[0].nodes[1].parameters, 10 * 16 + 16);
}

TEST(SummariesLaw, EvaluationShowsAllBatchesOnAnyNumberOfReplicas) {
  TempDirectory directory;
  const auto evaluate = [&](int replicas) {
    RunConfig config = quiet_config(directory / fmt::format("{}", replicas));
    config.eval_distribute = distribute::mirrored({.replicas = replicas});
    Estimator estimator(shown, config);
    (void)estimator.evaluate([] { return examples(23).batch(5); }, {.allow_untrained = true});
    return written_in(config.model_dir + "/eval").points;
  };
  const Points one = evaluate(1);
  EXPECT_EQ(std::get<Histogram>(one.at("x").at(0)).count, 230);
  EXPECT_EQ(std::get<std::string>(one.at("mode").at(0)), "eval");
  EXPECT_TRUE(one.contains("accuracy"));
  for (const int replicas : {2, 3}) {
    const Points many = evaluate(replicas);
    expect_same(many, one, fmt::format("{} replicas", replicas));
    EXPECT_EQ(std::get<float>(many.at("mean").at(0)), std::get<float>(one.at("mean").at(0)))
        << "in the order of the batches";
    EXPECT_EQ(std::get<formats::ImageSummary>(many.at("first/rows/image").at(0)).encoded,
              std::get<formats::ImageSummary>(one.at("first/rows/image").at(0)).encoded);
  }
}

TEST(SummariesLaw, PredictionsShowThemWhereTheyAreWanted) {
  TempDirectory directory;
  Estimator estimator(shown, quiet_config(directory / "m"));
  const auto predict = [&](const PredictOptions& options) {
    Predictions predictions = estimator.predict([] { return examples(7).batch(4); }, options);
    while (predictions.next()) {
    }
  };
  predict({.allow_untrained = true});
  EXPECT_FALSE(local_file_system().exists(directory / "m/predict").value());
  predict({.allow_untrained = true, .summary_dir = directory / "m/predict"});
  const Points points = written_in(directory / "m/predict").points;
  EXPECT_EQ(std::get<Histogram>(points.at("x").at(0)).count, 70);
  EXPECT_EQ(std::get<std::string>(points.at("mode").at(0)), "predict");
}

TEST(SummariesLaw, NoneAreMadeWhereNoneAreWanted) {
  TempDirectory directory;
  RunConfig config = quiet_config(directory.path());
  config.save_summary_steps = 0;
  Estimator estimator(shown, config, {{"optimizer", "sgd"}});
  estimator.train(input_of(10, 20), {.max_steps = 2});
  (void)estimator.evaluate([] { return examples(10).batch(5); });
  const Written training = written_in(directory.path());
  EXPECT_TRUE(training.points.empty());
  EXPECT_TRUE(training.graphs.empty());
  EXPECT_FALSE(written_in(directory / "eval").points.contains("mean"));
}

}  // namespace
}  // namespace muster::inline v0_1
