#include "muster/metrics/metric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/strings.h"
#include "muster/metrics/metrics.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

TEST(Metric, MeanIsTheWeightedMean) {
  const Tensor values = torch::tensor({1.0f, 3.0f, 5.0f, 7.0f});
  EXPECT_EQ(metrics::mean(values).result(), 4.0);
  EXPECT_EQ(metrics::mean(values, torch::tensor({1.0f, 1.0f, 0.0f, 0.0f})).result(), 2.0);
  EXPECT_EQ(metrics::mean(values, torch::tensor({{1}, {0}, {0}, {1}})).result(), 4.0);
  EXPECT_EQ(metrics::mean(values, torch::tensor(2.0f)).state(), (std::vector<double>{32.0, 8.0}));
  EXPECT_EQ(metrics::mean(torch::tensor({1, 2, 4, 5})).result(), 3.0);
  EXPECT_EQ(metrics::mean(torch::tensor(2.5f)).result(), 2.5);
}

TEST(Metric, OneWithoutAKindWaitsForOne) {
  Metric metric;
  EXPECT_FALSE(metric.defined());
  EXPECT_EQ(metric.definition(), nullptr);
  const Metric mean = metrics::mean(torch::tensor({1.0f, 3.0f}));
  for (const std::string& said :
       {message_of([&] { (void)metric.result(); }), message_of([&] { (void)metric.kind(); }),
        message_of([&] { (void)metric.state(); }), message_of([&] { metric.merge(Metric()); }),
        message_of([&] { Metric(mean).merge(metric); }),
        message_of([&] { (void)metric.with_state({1}); })}) {
    EXPECT_EQ(said, "a metric that was default constructed has neither kind nor state");
  }
  EXPECT_FALSE(metric.defined());
  // A sum over batches begins with it, whatever the kind.
  metric.merge(mean);
  EXPECT_EQ(metric.kind(), "mean");
  metric.merge(metrics::mean(torch::tensor({8.0f})));
  EXPECT_EQ(metric.state(), (std::vector<double>{12, 3}));
  EXPECT_EQ(mean.state(), (std::vector<double>{4, 2}));
  std::map<std::string, Metric> all;
  all["mean"] = mean;
  EXPECT_EQ(all["mean"].result(), 2.0);
  EXPECT_TRUE(all["mean"].defined());
}

TEST(Metric, WeightsOfExamplesCoverTheirOtherAxes) {
  // Rows average to 2 and 20.
  const Tensor values = torch::tensor({{1.0f, 3.0f}, {10.0f, 30.0f}});
  const Metric metric = metrics::mean(values, torch::tensor({3.0f, 1.0f}));
  EXPECT_EQ(metric.state(), (std::vector<double>{3 * 2 + 20, 4}));
  EXPECT_EQ(metrics::mean(values, torch::tensor({{3.0f}, {1.0f}})).state(), metric.state());
  EXPECT_EQ(metrics::mean(values, torch::tensor({{1.0f, 0.0f}, {0.0f, 1.0f}})).result(), 15.5);
}

TEST(Metric, AccuracyCountsEqualClasses) {
  const Tensor labels = torch::tensor({0, 1, 2, 2}, at::kLong);
  const Tensor predictions = torch::tensor({0, 1, 1, 2}, at::kLong);
  EXPECT_EQ(metrics::accuracy(labels, predictions).state(), (std::vector<double>{3, 4}));
  EXPECT_EQ(metrics::accuracy(labels.to(at::kByte), predictions.to(at::kFloat)).result(), 0.75);
  EXPECT_EQ(metrics::accuracy(labels.unsqueeze(1), predictions).result(), 0.75);
  EXPECT_EQ(metrics::accuracy(labels, predictions.unsqueeze(1)).result(), 0.75);
  const Tensor weights = torch::tensor({1.0f, 1.0f, 2.0f, 0.0f});
  EXPECT_EQ(metrics::accuracy(labels, predictions, weights).result(), 0.5);
  EXPECT_EQ(metrics::accuracy(labels, predictions, weights.unsqueeze(1)).result(), 0.5);
}

TEST(Metric, MergingBatchesIsSeeingThemAllAtOnce) {
  const Tensor labels = torch::arange(101, at::kLong).remainder(7);
  const Tensor predictions = torch::arange(101, at::kLong).remainder(3);
  const Tensor weights = torch::arange(101, at::kFloat).remainder(4);
  const Metric whole = metrics::accuracy(labels, predictions, weights);
  Metric merged =
      metrics::accuracy(labels.slice(0, 0, 0), predictions.slice(0, 0, 0), weights.slice(0, 0, 0));
  EXPECT_EQ(merged.result(), 0.0);
  for (int64_t begin = 0; begin < 101; begin += 32) {
    const int64_t end = std::min<int64_t>(begin + 32, 101);
    merged.merge(metrics::accuracy(labels.slice(0, begin, end), predictions.slice(0, begin, end),
                                   weights.slice(0, begin, end)));
  }
  EXPECT_EQ(merged.state(), whole.state());
  int64_t right = 0, total = 0;
  for (int64_t i = 0; i < 101; ++i) {
    right += i % 7 == i % 3 ? i % 4 : 0;
    total += i % 4;
  }
  EXPECT_EQ(whole.state(),
            (std::vector<double>{static_cast<double>(right), static_cast<double>(total)}));
}

TEST(Metric, SumsInDouble) {
  // In float32, 2^24 + 1 is 2^24.
  Metric metric = metrics::mean(torch::full({1}, 16777216.0f));
  for (int i = 0; i < 4; ++i) metric.merge(metrics::mean(torch::ones({1})));
  EXPECT_EQ(metric.state()[0], 16777220.0);
}

TEST(Metric, TravelsAsKindAndState) {
  const Metric metric = metrics::mean(torch::tensor({1.0f, 2.0f}));
  const Metric copy = Metric::make(metric.kind(), metric.state());
  EXPECT_EQ(copy.kind(), "mean");
  EXPECT_EQ(copy.result(), 1.5);
  EXPECT_EQ(metrics::accuracy(torch::ones({1}), torch::ones({1})).kind(), "accuracy");
}

TEST(Metric, NothingSeenIsZero) {
  EXPECT_EQ(metrics::mean(torch::zeros({0})).result(), 0.0);
  EXPECT_EQ(metrics::mean(torch::ones({3}), torch::zeros({3})).result(), 0.0);
  EXPECT_EQ(metrics::mean(torch::zeros({0, 4}), torch::zeros({0})).state(),
            (std::vector<double>{0, 0}));
}

TEST(Metric, RefusesWhatDoesNotFit) {
  Metric metric = metrics::mean(torch::ones({1}));
  EXPECT_EQ(
      message_of([&] { metric.merge(metrics::accuracy(torch::ones({1}), torch::ones({1}))); }),
      "cannot merge a metric of kind accuracy into one of kind mean");
  EXPECT_EQ(message_of([] {
              Metric::make("median", {1, 2});
            }),
            "there is no metric of kind \"median\"");
  EXPECT_EQ(message_of([] { Metric::make("mean", {1}); }),
            "the state of a mean metric has 2 numbers, not 1");
  const std::string labels = message_of([] {
    metrics::accuracy(torch::zeros({4}, at::kLong), torch::zeros({4, 10}));
  });
  EXPECT_EQ(labels, "metrics::accuracy: labels int64[4] do not fit predictions float32[4, 10]");
  EXPECT_EQ(error_of([] {
              metrics::accuracy(torch::zeros({4, 10}), torch::zeros({4}, at::kLong));
            }).hint(),
            "the labels come first: accuracy(labels, logits.argmax(-1))");
  const std::string weights =
      message_of([] { metrics::mean(torch::zeros({4}), torch::zeros({3})); });
  EXPECT_NE(weights.find("weights float32[3]"), std::string::npos) << weights;
  message_of([] { metrics::mean(Tensor()); });
  message_of([] { metrics::accuracy(Tensor(), torch::ones({1})); });
}

// Counts by (label, prediction), as a program would add it: a state whose length depends on a
// parameter.
std::shared_ptr<const MetricKind> confusion_matrix(int64_t classes) {
  const auto n = static_cast<size_t>(classes);
  return std::make_shared<const MetricKind>(
      MetricKind{.name = "confusion_matrix(" + std::to_string(classes) + ")",
                 .empty = std::vector<double>(n * n),
                 .merge = add_metric_states,
                 .result = [n](std::span<const double> state) {
                   double right = 0, all = 0;
                   for (size_t i = 0; i < state.size(); ++i) {
                     all += state[i];
                     if (i / n == i % n) right += state[i];
                   }
                   return all == 0 ? 0.0 : right / all;
                 }});
}

// The largest number seen: not a sum.
std::shared_ptr<const MetricKind> largest() {
  return std::make_shared<const MetricKind>(MetricKind{
      .name = "largest",
      .empty = {-std::numeric_limits<double>::infinity()},
      .merge = [](std::span<double> state,
                  std::span<const double> other) { state[0] = std::max(state[0], other[0]); },
      .result = [](std::span<const double> state) { return state[0]; }});
}

TEST(MetricKind, AStateMayBeALongVector) {
  constexpr int64_t kClasses = 20;
  const auto kind = confusion_matrix(kClasses);
  const auto counted = [&](int64_t begin, int64_t end) {
    return Metric::deferred(kind, [=] {
      std::vector<double> state = kind->empty;
      for (int64_t i = begin; i < end; ++i) ++state[(i * 7 % kClasses) * kClasses + i % kClasses];
      return state;
    });
  };
  Metric merged = counted(0, 0);
  EXPECT_EQ(merged.result(), 0.0);
  // Another object of the same name is the same kind, as on another task.
  for (int64_t i = 0; i < 1000; i += 100)
    merged.merge(Metric::make(confusion_matrix(kClasses), counted(i, i + 100).state()));
  EXPECT_EQ(merged.state(), counted(0, 1000).state());
  EXPECT_EQ(merged.state().size(), 400u);
  // 7 i = i modulo 20 exactly when i is a multiple of 10.
  EXPECT_EQ(merged.result(), 0.1);
  EXPECT_EQ(message_of([&] {
              merged.merge(Metric::make(confusion_matrix(2), {1, 0, 0, 1}));
            }),
            "cannot merge a metric of kind confusion_matrix(2) into one of kind "
            "confusion_matrix(20)");
}

TEST(MetricKind, MergesByItsOwnRule) {
  Metric metric = Metric::make(largest(), largest()->empty);
  for (double number : {-3.0, 2.5, -7.0}) metric.merge(metric.with_state({number}));
  EXPECT_EQ(metric.result(), 2.5);
  metric.merge(metric.with_state(metric.definition()->empty));
  EXPECT_EQ(metric.result(), 2.5) << "what has seen nothing changes nothing";
  metric.merge(metric);
  EXPECT_EQ(metric.result(), 2.5);
}

TEST(MetricKind, OfAProgramIsRebuiltFromItsNameAndState) {
  const Metric metric = Metric::make(largest(), {4.0});
  const Metric copy = Metric::make(metric.kind(), metric.state(), {confusion_matrix(3), largest()});
  EXPECT_EQ(copy.result(), 4.0);
  EXPECT_EQ(Metric::make("mean", {3, 2}, {largest()}).result(), 1.5);
  EXPECT_EQ(metric.with_state({9.0}).result(), 9.0);
  EXPECT_EQ(error_of([] { Metric::make("quantile", {1}, {largest()}); }).hint(),
            "the kinds are " + join(metric_kind_names(), ", ") + ", largest");
  for (const auto& [asked, meant] :
       {std::pair("acuracy", "accuracy"), std::pair("largets", "largest")}) {
    EXPECT_EQ(error_of([&] { Metric::make(asked, {1}, {largest()}); }).hint(),
              "did you mean '" + std::string(meant) + "'?");
  }
  EXPECT_EQ(Metric::make("root_mean_squared_error", {8, 2}).result(), 2.0);
}

// Counts by class, with a part for each.
MetricKind shares(std::vector<std::string> names) {
  MetricKind kind{.name = "shares", .empty = {0, 0}, .merge = add_metric_states};
  kind.result = [](std::span<const double> state) { return state[0] + state[1]; };
  kind.part_names = std::move(names);
  kind.parts = [](std::span<const double> state) {
    return std::vector<double>(state.begin(), state.end());
  };
  return kind;
}

TEST(MetricKind, MayHaveParts) {
  const auto kind = std::make_shared<const MetricKind>(shares({"first", "second"}));
  Metric metric = Metric::make(kind, {1, 2});
  metric.merge(metric.with_state({3, 5}));
  EXPECT_EQ(metric.result(), 11.0);
  EXPECT_EQ(metric.parts(), (std::vector<double>{4, 7}));
  EXPECT_TRUE(Metric::make(largest(), {4.0}).parts().empty());
  const auto one = std::make_shared<const MetricKind>(shares({"first"}));
  EXPECT_EQ(message_of([&] {
              (void)Metric::make(one, {1, 2}).parts();
            }),
            "the metric kind \"shares\" read 2 parts and names 1");
  const auto none = std::make_shared<const MetricKind>(shares({}));
  EXPECT_EQ(message_of([&] {
              Metric::make(none, {1, 2});
            }),
            "the metric kind \"shares\" has parts without names");
  MetricKind unread = shares({"first", "second"});
  unread.parts = nullptr;
  EXPECT_EQ(message_of([&] {
              Metric::make(std::make_shared<const MetricKind>(unread), {1, 2});
            }),
            "the metric kind \"shares\" has names without parts");
}

TEST(MetricKind, RefusesWhatIsNotWhole) {
  EXPECT_EQ(message_of([] { Metric::make(std::shared_ptr<const MetricKind>(), {1}); }),
            "a metric was made without a kind");
  MetricKind kind = *largest();
  kind.merge = nullptr;
  EXPECT_EQ(message_of([&] { Metric::make(std::make_shared<MetricKind>(kind), {1}); }),
            "the metric kind \"largest\" lacks a part");
  EXPECT_EQ(message_of([] {
              Metric::make(largest(), {1, 2});
            }),
            "the state of a largest metric has 1 number, not 2");
  const Metric wrong = Metric::deferred(largest(), [] { return std::vector<double>{1, 2}; });
  EXPECT_EQ(message_of([&] { (void)wrong.result(); }),
            "the state of a largest metric has 1 number, not 2");
}

}  // namespace
}  // namespace muster::inline v0_1
