// Tables for the tests of boosted trees.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/dataset.h"
#include "muster/tensor/libtorch.h"
#include "muster/trees/boosted_trees.h"

namespace muster::inline v0_1::testing {

// Rows as tensors, which tests change before they make a data set of them.
struct TestRows {
  Tensor x{};       // float32 [rows, 4]: two of normal numbers, one of few, one with missing values
  Tensor kind{};    // int64 [rows]: from 0 to 5
  Tensor weight{};  // float32 [rows]: 1
  Tensor label{};   // float32 [rows]

  // In batches of `batch` over all replicas.
  Dataset dataset(int64_t batch = 50) const {
    return Dataset::from_tensor_slices(
               Element::tuple(
                   {Element::dict({{"x", x}, {"kind", kind}, {"weight", weight}}), label}))
        .global_batch(batch);
  }
  // These rows, in this order.
  TestRows select(const Tensor& places) const {
    return {x.index_select(0, places), kind.index_select(0, places), weight.index_select(0, places),
            label.index_select(0, places)};
  }
};

// With labels from 0 to classes - 1, or numbers when `classes` is 0.
inline TestRows test_rows(int64_t rows, int64_t classes, uint64_t seed = 1) {
  Random random(derive_key(seed, {id_of("test_rows")}));
  TestRows made{.x = torch::empty({rows, 4}),
                .kind = torch::empty({rows}, kInt64),
                .weight = torch::ones({rows}),
                .label = torch::empty({rows})};
  for (int64_t i = 0; i < rows; ++i) {
    float* x = made.x.data_ptr<float>() + 4 * i;
    x[0] = static_cast<float>(random.normal());
    x[1] = static_cast<float>(random.normal());
    x[2] = static_cast<float>(random.uniform_below(7));
    const double hidden = random.normal();
    x[3] = random.uniform() < 0.3 ? std::numeric_limits<float>::quiet_NaN()
                                  : static_cast<float>(hidden);
    const auto kind = static_cast<int64_t>(random.uniform_below(6));
    made.kind.data_ptr<int64_t>()[i] = kind;
    const double y = x[0] * x[1] + 0.3 * x[2] - (std::isnan(x[3]) ? 1.0 : 0.5 * hidden) +
                     (kind == 3 ? 1.5 : 0.0) + 0.5 * random.normal();
    float label = static_cast<float>(y);
    if (classes > 0) {
      const double place = std::floor((y + 2) / 4 * static_cast<double>(classes));
      label = static_cast<float>(std::clamp(place, 0.0, static_cast<double>(classes - 1)));
    }
    made.label.data_ptr<float>()[i] = label;
  }
  return made;
}

// Saves at the end alone.
inline RunConfig trees_config(const std::string& model_dir,
                              distribute::StrategyPtr strategy = nullptr) {
  RunConfig config{.model_dir = model_dir, .save_summary_steps = 0, .progress_line = false};
  config.train_distribute = std::move(strategy);
  return config;
}

// Predictions of one key, over all rows, one after the other.
inline std::vector<float> predicted(BoostedTrees& model, const Dataset& data,
                                    const std::string& key) {
  BoostedTreesPredictions predictions =
      model.predict([&] { return data; }, {.predict_keys = {key}, .yield_single_examples = false});
  std::vector<float> all;
  while (const auto batch = predictions.next()) {
    const Tensor values = batch->at(key).to(kFloat32).contiguous();
    all.insert(all.end(), values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  }
  return all;
}

}  // namespace muster::inline v0_1::testing
