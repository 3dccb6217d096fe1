#include "benchmarks/linear/clicks.h"

#include <fmt/format.h>
#include <muster/muster.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "benchmarks/support/step_pacer.h"
#include "benchmarks/support/step_pacer_hook.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/tensor/libtorch.h"

namespace muster::bench {
namespace {

constexpr float kClickRate = 0.2F, kInitialAccumulator = 0.1F;

std::string number_name(int64_t i) { return fmt::format("I{}", i + 1); }
std::string category_name(int64_t i) { return fmt::format("C{}", i + 1); }

// Numbers are logarithms of counts; of the ids of a category some are common and most are rare, as
// hashes of words are.
struct Clicks {
  std::vector<Tensor> numbers;  // float32 [rows, 1] each
  std::vector<Tensor> ids;      // int64 [rows, 1] each
  Tensor labels = torch::empty({kClickRows});

  Clicks() {
    Random random(derive_key(39, {}));
    std::vector<float> logits(kClickRows, -1.5F);
    for (int64_t c = 0; c < kClickNumbers; ++c) {
      numbers.push_back(torch::empty({kClickRows, 1}));
      auto* value = numbers.back().data_ptr<float>();
      const double weight = 0.3 * random.normal();
      for (int64_t row = 0; row < kClickRows; ++row) {
        value[row] = static_cast<float>(std::abs(random.normal()));
        logits[static_cast<size_t>(row)] += static_cast<float>(weight * value[row]);
      }
    }
    for (int64_t c = 0; c < kClickCategories; ++c) {
      ids.push_back(torch::empty({kClickRows, 1}, kInt64));
      auto* id = ids.back().data_ptr<int64_t>();
      std::vector<float> weights;
      for (int64_t i = 0; i < kClickBuckets; ++i)
        weights.push_back(static_cast<float>(0.3 * random.normal()));
      for (int64_t row = 0; row < kClickRows; ++row) {
        // Rank r is as frequent as 1 / r; a hash puts it somewhere.
        const double rank = std::pow(static_cast<double>(kClickBuckets), random.uniform());
        id[row] = static_cast<int64_t>(rank) * 7919 % kClickBuckets;
        logits[static_cast<size_t>(row)] += weights[static_cast<size_t>(id[row])];
      }
    }
    auto* label = labels.data_ptr<float>();
    for (int64_t row = 0; row < kClickRows; ++row) {
      label[row] =
          random.uniform() < 1 / (1 + std::exp(-logits[static_cast<size_t>(row)])) ? 1.0F : 0.0F;
    }
  }
};

// ---- by hand ----

// One group of weights with Ftrl's slots for each.
struct Table {
  std::vector<float> weights, accumulators, linear, gradients;
  std::vector<int64_t> touched;

  explicit Table(size_t rows)
      : weights(rows), accumulators(rows, kInitialAccumulator), linear(rows), gradients(rows) {}

  // A gradient is never exactly 0 in practice, so 0 means "not touched".
  void add(int64_t row, float gradient) {
    float& sum = gradients[static_cast<size_t>(row)];
    if (sum == 0) touched.push_back(row);
    sum += gradient;
  }
  void update() {
    for (const int64_t row : touched) {
      const auto i = static_cast<size_t>(row);
      const float g = std::exchange(gradients[i], 0.0F);
      const float before = std::sqrt(accumulators[i]);
      accumulators[i] += g * g;
      const float after = std::sqrt(accumulators[i]);
      linear[i] += g - (after - before) / kClickRate * weights[i];
      weights[i] = -linear[i] * kClickRate / after;
    }
    touched.clear();
  }
};

}  // namespace

void write_clicks(const std::string& folder) {
  const Clicks clicks;
  const auto write = [&](const char* name, const Tensor& values) {
    std::ofstream file(folder + "/" + name, std::ios::binary);
    file.write(static_cast<const char*>(values.data_ptr()),
               values.numel() * static_cast<int64_t>(values.element_size()));
    if (!file.flush()) throw internal_error("cannot write " + folder + "/" + name);
  };
  write("numbers", torch::cat(clicks.numbers, 1).contiguous());
  write("ids", torch::cat(clicks.ids, 1).contiguous());
  write("labels", clicks.labels);
}

void train_clicks_by_estimator(int64_t batch) {
  using namespace feature_column;
  const Clicks clicks;
  std::vector<FeatureColumn> columns;
  std::vector<std::pair<std::string, Element>> features;
  for (int64_t c = 0; c < kClickNumbers; ++c) {
    columns.push_back(numeric_column(number_name(c)));
    features.emplace_back(number_name(c) + "/values", clicks.numbers[static_cast<size_t>(c)]);
  }
  for (int64_t c = 0; c < kClickCategories; ++c) {
    columns.push_back(categorical_column_with_hash_bucket(category_name(c), kClickBuckets));
    features.emplace_back(category_name(c) + "/ids", clicks.ids[static_cast<size_t>(c)]);
  }
  const Element rows = Element::tuple({Element::dict(std::move(features)), clicks.labels});
  Estimator classifier =
      LinearClassifier({.feature_columns = columns, .optimizer = "Ftrl"},
                       {.model_dir = std::getenv("BENCH_MODEL_DIR"), .save_checkpoints_steps = 0});
  classifier.train([&] { return Dataset::from_tensor_slices(rows).repeat().batch(batch); },
                   {.hooks = {std::make_shared<StepPacerHook>()}});
}

void train_clicks_by_hand(int64_t batch) {
  const Clicks clicks;
  std::vector<const float*> numbers;
  std::vector<const int64_t*> ids;
  for (const Tensor& tensor : clicks.numbers) numbers.push_back(tensor.data_ptr<float>());
  for (const Tensor& tensor : clicks.ids) ids.push_back(tensor.data_ptr<int64_t>());
  const auto* labels = clicks.labels.data_ptr<float>();
  Table dense(kClickNumbers + 1);  // the bias is the last
  std::vector<Table> tables(kClickCategories, Table(kClickBuckets));
  int64_t at = 0;
  double loss = 0;
  for (StepPacer pacer; pacer.next(loss);) {
    loss = 0;
    for (int64_t end = at + batch; at < end; ++at) {
      const auto row = static_cast<size_t>(at % kClickRows);
      float logit = dense.weights[kClickNumbers];
      for (size_t c = 0; c < kClickNumbers; ++c) logit += numbers[c][row] * dense.weights[c];
      for (size_t c = 0; c < kClickCategories; ++c)
        logit += tables[c].weights[static_cast<size_t>(ids[c][row])];
      loss += std::log1p(std::exp(labels[row] > 0 ? -logit : logit)) / static_cast<double>(batch);
      const float slope = (1 / (1 + std::exp(-logit)) - labels[row]) / static_cast<float>(batch);
      for (size_t c = 0; c < kClickNumbers; ++c)
        dense.add(static_cast<int64_t>(c), slope * numbers[c][row]);
      dense.add(kClickNumbers, slope);
      for (size_t c = 0; c < kClickCategories; ++c) tables[c].add(ids[c][row], slope);
    }
    dense.update();
    for (Table& table : tables) table.update();
  }
}

}  // namespace muster::bench
