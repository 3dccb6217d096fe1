// Learns the line y = 2x + 1 from 1,000 points: the smallest program.
#include <muster/muster.h>
#include <torch/types.h>

using namespace muster;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("line", [] { return Dense(1); });
  Tensor y = model(features);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"y", y}});
  Tensor loss = losses::mean_squared_error(labels, y);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  auto sgd = context.optimizer(optim::sgd({.learning_rate = 0.1}));
  return EstimatorSpec::train(loss, sgd.minimize(loss));
}

Dataset points() {
  Tensor x = torch::linspace(-1, 1, 1000).view({-1, 1});  // [1000, 1]
  return Dataset::from_tensor_slices(Element::tuple({x, 2 * x + 1}));
}

void program(const Flags& flags) {
  Estimator line(model_fn, {.model_dir = flags.model_dir});
  line.train([] { return points().shuffle(1000).repeat().batch(100); }, {.max_steps = 200});

  const Dataset question = Dataset::from_tensors(torch::tensor({{3.0f}}));
  Predictions predictions = line.predict([&] { return question; });
  const auto answer = predictions.next();
  print_result({{"slope", line.get_variable_value("line/dense/kernel").item<double>()},
                {"intercept", line.get_variable_value("line/dense/bias").item<double>()},
                {"y(3)", answer->at("y").item<double>()}});
}

int main(int argc, char** argv) { return run_main(argc, argv, program, {.uses = {"model_dir"}}); }
