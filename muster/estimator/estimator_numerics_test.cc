#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using testing::examples;
using testing::latest;
using testing::quiet_config;
using testing::two_layers;

// Against a computation of its own: loops in double, no library.
struct PlainModel {
  // [in][out], row-major; parameters and, of the same form, gradients and slots.
  using Numbers = std::map<std::string, std::vector<double>>;
  static constexpr int64_t kHidden = 16, kClasses = 2;

  // The variables that a checkpoint holds.
  static Numbers read(const Checkpoint& checkpoint) {
    Numbers numbers;
    for (const char* name :
         {"net/dense/kernel", "net/dense/bias", "net/dense_1/kernel", "net/dense_1/bias"}) {
      const Tensor flat = checkpoint.tensors.at(name).to(kFloat64).reshape({-1});
      numbers[name].assign(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
    }
    return numbers;
  }

  // Mean cross-entropy over the rows, with its gradients.
  static double gradients(const Numbers& w, const std::vector<std::vector<double>>& x,
                          const std::vector<int64_t>& labels, Numbers* g) {
    for (const auto& [name, values] : w) (*g)[name].assign(values.size(), 0);
    double loss = 0;
    const double share = 1.0 / static_cast<double>(x.size());
    for (size_t r = 0; r < x.size(); ++r) {
      std::vector<double> hidden(kHidden), logits(kClasses), dlogits(kClasses);
      for (int64_t h = 0; h < kHidden; ++h) {
        double sum = w.at("net/dense/bias")[h];
        for (int64_t i = 0; i < testing::kFeatures; ++i)
          sum += x[r][i] * w.at("net/dense/kernel")[i * kHidden + h];
        hidden[h] = std::max(sum, 0.0);
      }
      double total = 0;
      for (int64_t c = 0; c < kClasses; ++c) {
        logits[c] = w.at("net/dense_1/bias")[c];
        for (int64_t h = 0; h < kHidden; ++h)
          logits[c] += hidden[h] * w.at("net/dense_1/kernel")[h * kClasses + c];
        total += std::exp(logits[c]);
      }
      loss += share * (std::log(total) - logits[labels[r]]);
      for (int64_t c = 0; c < kClasses; ++c) {
        dlogits[c] = share * (std::exp(logits[c]) / total - (c == labels[r] ? 1 : 0));
        g->at("net/dense_1/bias")[c] += dlogits[c];
      }
      for (int64_t h = 0; h < kHidden; ++h) {
        double dhidden = 0;
        for (int64_t c = 0; c < kClasses; ++c) {
          g->at("net/dense_1/kernel")[h * kClasses + c] += hidden[h] * dlogits[c];
          dhidden += w.at("net/dense_1/kernel")[h * kClasses + c] * dlogits[c];
        }
        if (hidden[h] <= 0) continue;
        g->at("net/dense/bias")[h] += dhidden;
        for (int64_t i = 0; i < testing::kFeatures; ++i)
          g->at("net/dense/kernel")[i * kHidden + h] += x[r][i] * dhidden;
      }
    }
    return loss;
  }
};

struct NumericsCase {
  std::string optimizer{};
  DType dtype{};
  double tolerance{};  // relative to the largest weight
};

class NumericsTest : public ::testing::TestWithParam<NumericsCase> {};

// The optimizers of two_layers by their formulas; slots begin at 0.
class PlainOptimizer {
 public:
  PlainOptimizer(std::string name, const PlainModel::Numbers& weights) : name_(std::move(name)) {
    for (const auto& [variable, values] : weights) {
      first_[variable].assign(values.size(), 0);
      second_[variable].assign(values.size(), 0);
    }
  }

  void update(PlainModel::Numbers& weights, const PlainModel::Numbers& gradients) {
    const double t = ++steps_;
    for (auto& [variable, values] : weights) {
      for (size_t i = 0; i < values.size(); ++i) {
        double &m = first_[variable][i], &v = second_[variable][i];
        const double gradient = gradients.at(variable)[i];
        if (name_ == "adam") {
          m = 0.9 * m + 0.1 * gradient;
          v = 0.999 * v + 0.001 * gradient * gradient;
          const double rate = 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
          values[i] -= rate * m / (std::sqrt(v) + 1e-7);
        } else if (name_ == "momentum") {
          m = 0.9 * m - 0.05 * gradient;
          values[i] += m;
        } else {
          values[i] -= 0.1 * gradient;
        }
      }
    }
  }

 private:
  const std::string name_;
  PlainModel::Numbers first_, second_;
  int steps_ = 0;
};

// Rows [begin, end) of a batch, as plain numbers.
struct PlainRows {
  PlainRows(const Batch& batch, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      x.emplace_back();
      for (int64_t i = 0; i < testing::kFeatures; ++i)
        x.back().push_back(batch.features["x"][r][i].item<double>());
      labels.push_back(batch.labels.tensor()[r].item<int64_t>());
    }
  }

  std::vector<std::vector<double>> x;
  std::vector<int64_t> labels;
};

TEST_P(NumericsTest, FiveStepsEqualAPlainComputationInDouble) {
  TempDirectory directory;
  constexpr int64_t kRows = 40, kBatch = 8, kSteps = 5;
  class Losses : public Hook {
   public:
    void after_step(const StepInfo& info) override { all.push_back(info.loss); }
    std::vector<double> all;
  };
  const auto losses = std::make_shared<Losses>();
  RunConfig config = quiet_config(directory / "m");
  config.keep_checkpoint_max = 0;
  const auto& [optimizer, dtype, tolerance] = GetParam();
  const ModelFn model = [dtype = dtype](const Features& features, const Labels& labels, Mode mode,
                                        ModelContext& context) {
    const Features converted(Element::dict({{"x", features["x"].to(dtype)}}));
    return two_layers(converted, labels, mode, context);
  };
  Estimator estimator(model, config, {{"optimizer", optimizer}});
  estimator.train([] { return examples(kRows).batch(kBatch); },
                  {.max_steps = kSteps, .hooks = {losses}});
  const Checkpoint start = CheckpointManager(directory / "m").load(directory / "m/model.ckpt-0");
  const Checkpoint end = latest(directory / "m");

  PlainModel::Numbers w = PlainModel::read(start), g;
  PlainOptimizer plain(optimizer, w);
  const auto data = examples(kRows).batch(kRows).iterator();
  std::optional<Element> all;
  ASSERT_TRUE(all = data->next());
  const Batch batch = to_batch(*all);
  for (int64_t step = 0; step < kSteps; ++step) {
    const PlainRows rows(batch, step * kBatch, (step + 1) * kBatch);
    const double loss = PlainModel::gradients(w, rows.x, rows.labels, &g);
    EXPECT_NEAR(losses->all.at(size_t(step)), loss, tolerance * loss);
    plain.update(w, g);
  }
  double largest = 0;
  for (const auto& [name, values] : w) {
    for (double value : values) largest = std::max(largest, std::abs(value));
  }
  for (const auto& [name, values] : w) {
    const Tensor expected = torch::tensor(values, kFloat64);
    const Tensor trained = end.tensors.at(name).to(kFloat64).reshape({-1});
    EXPECT_EQ(end.tensors.at(name).scalar_type(), dtype);
    EXPECT_LT((trained - expected).abs().max().item<double>(), tolerance * largest) << name;
    EXPECT_GT((trained - start.tensors.at(name).reshape({-1})).abs().max().item<double>(), 1e-3);
  }
}
// In float32 Adam shows rounding most: it divides by the size of gradients that nearly cancel.
INSTANTIATE_TEST_SUITE_P(Optimizers, NumericsTest,
                         ::testing::Values(NumericsCase{"sgd", kFloat32, 1e-6},
                                           NumericsCase{"momentum", kFloat32, 1e-6},
                                           NumericsCase{"adam", kFloat32, 1e-5},
                                           NumericsCase{"sgd", kFloat64, 1e-12},
                                           NumericsCase{"momentum", kFloat64, 1e-12},
                                           NumericsCase{"adam", kFloat64, 1e-12}));

}  // namespace
}  // namespace muster::inline v0_1
