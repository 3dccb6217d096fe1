// The learning rate at each step of a continued run: tools/peers/cases/rates.py.
#include <memory>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/linear.h"
#include "muster/features/dense_column.h"
#include "muster/heads/regression_head.h"
#include "muster/keras/model.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/fit_parts.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

constexpr double kLabel = 1000;

class EstimatorRates : public Hook {
 public:
  void after_step(const StepInfo& step) override {
    rates.push_back(step.metrics.value().at("learning_rate"));
  }
  std::vector<double> rates;
};

PeerArrays estimator_rates(const std::vector<int64_t>& stops, const optim::LearningRate& rate) {
  const TempDirectory directory;
  const auto hook = std::make_shared<EstimatorRates>();
  const auto data = [] {
    return Dataset::from_tensor_slices(
               Element::tuple(
                   {Element::dict({{"x", torch::full({1, 1}, 0.5)}}), torch::full({1, 1}, kLabel)}))
        .repeat()
        .batch(1);
  };
  for (const int64_t stop : stops) {
    const Head head =
        RegressionHead({.loss_fn = [](const Tensor& labels, const Tensor& logits, const Features&) {
          return (labels - logits).abs();
        }});
    Estimator estimator =
        LinearEstimator(head,
                        {.feature_columns = {feature_column::numeric_column("x")},
                         .optimizer = optim::sgd({.learning_rate = rate})},
                        {.model_dir = directory.path(), .log_step_count_steps = 1});
    estimator.train(data, {.max_steps = stop, .hooks = {hook}});
  }
  return {{"rates", PeerArray::of(torch::tensor(hook->rates, kFloat64))}};
}

class FitRates : public keras::Callback {
 public:
  void on_train_batch_begin(int64_t) override { rates.push_back(model().learning_rate()); }
  std::vector<double> rates;
};

PeerArrays fit_rates(const std::vector<int64_t>& stops, const optim::LearningRate& rate,
                     bool adam) {
  const TempDirectory directory;
  const std::string path = join_path(directory.path(), "saved");
  const auto hook = std::make_shared<FitRates>();
  PeerArrays got;
  int64_t done = 0;
  for (const int64_t stop : stops) {
    keras::Model model(Sequential({Dense(1, {.kernel_initializer = initializers::zeros()})}),
                       {.environment = Environment()});
    constexpr auto kKeras = optim::Convention::kKeras;
    model.compile({.optimizer = adam ? optim::adam({.learning_rate = rate, .convention = kKeras})
                                     : optim::sgd({.learning_rate = rate}),
                   .loss = "mae"});
    model.build({1});
    if (done > 0) model.load(path);
    model.fit(torch::full({1, 1}, 0.5), torch::full({1, 1}, kLabel),
              {.epochs = stop - done,
               .batch_size = 1,
               .callbacks = {hook},
               .verbose = keras::Verbose::kSilent});
    model.save(path);
    done = stop;
    for (const auto& [name, value] : model.get_weights())
      got[name.substr(name.rfind('/') + 1)] = PeerArray::of(value);
  }
  got["rates"] = PeerArray::of(torch::tensor(hook->rates, kFloat64));
  return got;
}

PeerArrays run_rates(const PeerCase& a_case) {
  const Json& program = a_case.program;
  const auto stops = program.at("stops").get<std::vector<int64_t>>();
  const Json& schedule = program.at("schedule");
  const optim::LearningRate rate =
      peer_schedule(schedule.at("name"), schedule.value("options", Json::object()));
  if (program.at("where") == "estimator") return estimator_rates(stops, rate);
  return fit_rates(stops, rate, program.at("optimizer") == "Adam");
}

const PeerKind kRates("rates", run_rates);

}  // namespace
}  // namespace muster::inline v0_1
