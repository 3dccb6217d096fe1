#include "benchmarks/linear/sparse_rows.h"

#include <fmt/format.h>
#include <muster/muster.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "benchmarks/support/scratch.h"
#include "benchmarks/support/step_pacer.h"
#include "benchmarks/support/step_pacer_hook.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/data/libsvm.h"
#include "muster/tensor/libtorch.h"

namespace muster::bench {
namespace {

constexpr int64_t kIds = 123, kIdsOfRow = 14;
// Tuned by hand on a9a, for the fewest steps.
constexpr int64_t kBatch = 512;
constexpr double kFirstRate = 3, kMomentum = 0.7;  // the rate falls to 0 in a line
constexpr int64_t kMoreSteps = 4, kMostSteps = 512;
constexpr uint64_t kSeed = 1;

// ---- the rows ----

// Rows of one id out of each of 14 groups, the first ones of a group rather than the last ones.
struct Writer {
  Random random{derive_key(9, {})};
  std::array<double, kIds> weights{};
  double loss = 0;  // of the weights that decide the labels

  Writer() {
    for (double& weight : weights) weight = 0.9 * random.normal();
  }

  void write(const std::string& path, int64_t rows) {
    std::string text;
    loss = 0;
    for (int64_t row = 0; row < rows; ++row) {
      std::string ids;
      double logit = -2;
      for (int64_t group = 0; group < kIdsOfRow; ++group) {
        const int64_t begin = group * kIds / kIdsOfRow, end = (group + 1) * kIds / kIdsOfRow;
        const double u = random.uniform();
        const int64_t id = begin + static_cast<int64_t>(u * u * static_cast<double>(end - begin));
        logit += weights[static_cast<size_t>(id)];
        ids += fmt::format(" {}:1", id + 1);
      }
      const bool positive = random.uniform() < 1 / (1 + std::exp(-logit));
      loss += std::log1p(std::exp(positive ? -logit : logit)) / static_cast<double>(rows);
      text += (positive ? "+1" : "-1") + ids + "\n";
    }
    local_file_system().write_atomically(path, text).value();
  }
};

Element read_all(const std::string& path, bool dense) {
  constexpr int64_t kAll = 1 << 16;
  const Dataset rows =
      Dataset::from_files({path}, data::libsvm_format({.num_features = kIds, .dense = dense}));
  std::optional<Element> all;
  const PaddingOptions padding{.padding_values = {-1, 0, 0}};
  all = (dense ? rows.batch(kAll) : rows.padded_batch(kAll, padding)).iterator()->next();
  return *all;
}

// (dict of features, labels of 0 and 1), in memory as the model takes it.
Element in_memory(const std::string& path, bool dense) {
  const Element all = read_all(path, dense);
  const Tensor labels = all.part(1).value().tensor().gt(0).to(kFloat32);
  const char* from = dense ? "features" : "indices";
  const char* to = dense ? "x/values" : "x/ids";
  return Element::tuple({Element::dict({{to, all.part(0).at(from).value().tensor()}}), labels});
}

// ---- by an Estimator ----

// Takes the rows in the order of the file, as the others do.
class Fit {
 public:
  Fit(const SparseRows& rows, bool dense)
      : dense_(dense),
        target_(rows.target),
        train_(in_memory(rows.train, dense)),
        test_(in_memory(rows.test, dense)) {}

  // The fewest steps that reach the target.
  void find_steps() {
    for (steps_ = kMoreSteps; steps_ <= kMostSteps; steps_ += kMoreSteps) {
      if (loss(steps_) <= target_) return;
    }
    throw internal_error(fmt::format("the loss is above {} after {} steps", target_, kMostSteps));
  }

  void fit() const {
    const Scratch model_dir;
    model(model_dir.path, steps_, /*save_steps=*/0).train(training(), {.max_steps = steps_});
  }

  double loss(int64_t steps) const {
    const Scratch model_dir;
    Estimator estimator = model(model_dir.path, steps, /*save_steps=*/std::nullopt);
    estimator.train(training(), {.max_steps = steps});
    return estimator.evaluate([this] { return Dataset::from_tensor_slices(test_).batch(8192); })
        .at("average_loss");
  }

 private:
  InputFn training() const {
    return [this] { return Dataset::from_tensor_slices(train_).repeat().batch(kBatch); };
  }

  Estimator model(const std::string& model_dir, int64_t steps,
                  std::optional<int64_t> save_steps) const {
    using namespace feature_column;
    const FeatureColumn column = dense_ ? numeric_column("x", {.shape = {kIds}})
                                        : categorical_column_with_identity("x", kIds);
    const auto rate = optim::polynomial_decay(
        {.initial_learning_rate = kFirstRate, .decay_steps = steps, .end_learning_rate = 0});
    return LinearClassifier(
        {.feature_columns = {column},
         .optimizer = optim::sgd({.learning_rate = rate, .momentum = kMomentum})},
        {.model_dir = model_dir,
         .random_seed = kSeed,
         .save_summary_steps = 0,
         .save_checkpoints_steps = save_steps});
  }

  const bool dense_;
  const double target_;
  const Element train_, test_;
  int64_t steps_ = 0;
};

void fit_in_turns(const SparseRows& rows, bool dense) {
  Fit fit(rows, dense);
  fit.find_steps();
  for (StepPacer pacer; pacer.next(rows.target);) fit.fit();
}

// ---- by hand ----

// Ids of a row from begins[row] to begins[row + 1].
struct ByHand {
  std::vector<int64_t> begins{0};
  std::vector<int64_t> ids;
  std::vector<float> labels;

  explicit ByHand(const std::string& path) {
    const Element all = in_memory(path, /*dense=*/false);
    const Tensor padded = all.part(0).at("x/ids").value().tensor();
    const auto* id = padded.data_ptr<int64_t>();
    const auto* label = all.part(1).value().tensor().data_ptr<float>();
    for (int64_t row = 0; row < padded.size(0); ++row) {
      for (int64_t i = 0; i < padded.size(1); ++i, ++id) {
        if (*id >= 0) ids.push_back(*id);
      }
      begins.push_back(static_cast<int64_t>(ids.size()));
      labels.push_back(label[row]);
    }
  }
  size_t rows() const { return labels.size(); }
};

using Weights = std::array<float, kIds + 1>;  // the bias is the last

float logit_of(const ByHand& data, size_t row, const Weights& w) {
  float logit = w[kIds];
  for (int64_t i = data.begins[row]; i < data.begins[row + 1]; ++i)
    logit += w[static_cast<size_t>(data.ids[static_cast<size_t>(i)])];
  return logit;
}

// The same steps as the Estimator's.
Weights fitted(const ByHand& data, int64_t steps) {
  Weights w{}, velocity{}, gradient{};
  size_t row = 0;
  for (int64_t step = 0; step < steps; ++step) {
    gradient.fill(0);
    for (int64_t i = 0; i < kBatch; ++i, row = row + 1 == data.rows() ? 0 : row + 1) {
      const float logistic = 1 / (1 + std::exp(-logit_of(data, row, w)));
      const float slope = (logistic - data.labels[row]) / kBatch;
      for (int64_t k = data.begins[row]; k < data.begins[row + 1]; ++k)
        gradient[static_cast<size_t>(data.ids[static_cast<size_t>(k)])] += slope;
      gradient[kIds] += slope;
    }
    const auto rate = static_cast<float>(
        kFirstRate * (1 - static_cast<double>(step) / static_cast<double>(steps)));
    for (size_t i = 0; i < w.size(); ++i) {
      velocity[i] = static_cast<float>(kMomentum) * velocity[i] - rate * gradient[i];
      w[i] += velocity[i];
    }
  }
  return w;
}

double loss_of(const ByHand& data, const Weights& w) {
  double sum = 0;
  for (size_t row = 0; row < data.rows(); ++row) {
    const double logit = logit_of(data, row, w);
    sum += std::log1p(std::exp(data.labels[row] > 0 ? -logit : logit));
  }
  return sum / static_cast<double>(data.rows());
}

}  // namespace

SparseRows find_or_write_sparse_rows(const std::string& directory) {
  if (const char* data = std::getenv("MUSTER_TEST_DATA"); data != nullptr) {
    const std::string path = std::string(data) + "/sparse/a9a";
    return {.train = path, .test = path + ".t", .target = 0.325, .real = true};
  }
  SparseRows rows{.train = directory + "/train", .test = directory + "/test"};
  Writer writer;
  writer.write(rows.train, 32560);
  writer.write(rows.test, 16281);
  rows.target = 1.01 * writer.loss;
  return rows;
}

void fit_by_estimator(const SparseRows& rows) { fit_in_turns(rows, /*dense=*/false); }
void fit_by_dense_estimator(const SparseRows& rows) { fit_in_turns(rows, /*dense=*/true); }

void train_on_batches(const SparseRows& rows, int64_t batch) {
  const Element train = in_memory(rows.train, /*dense=*/false);
  Estimator classifier = LinearClassifier(
      {.feature_columns = {feature_column::categorical_column_with_identity("x", kIds)},
       .optimizer = "Ftrl"},
      {.model_dir = std::getenv("BENCH_MODEL_DIR"), .save_checkpoints_steps = 0});
  classifier.train([&] { return Dataset::from_tensor_slices(train).repeat().batch(batch); },
                   {.hooks = {std::make_shared<StepPacerHook>()}});
}

void fit_by_hand(const SparseRows& rows) {
  const ByHand train(rows.train), test(rows.test);
  int64_t steps = kMoreSteps;
  while (loss_of(test, fitted(train, steps)) > rows.target) {
    steps += kMoreSteps;
    if (steps > kMostSteps) throw internal_error("the loop by hand does not reach the target");
  }
  for (StepPacer pacer; pacer.next(rows.target);) (void)fitted(train, steps);
}

}  // namespace muster::bench
