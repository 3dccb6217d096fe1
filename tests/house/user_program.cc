// A program that includes <muster/muster.h> and nothing of LibTorch: compile_user.sh compiles it.
// It is never run.
#include <muster/muster.h>

#include <chrono>
#include <map>
#include <string>

using namespace muster;
using namespace std::chrono_literals;

// Names that a program gives its own functions.
Tensor linear(const Tensor& x, const Tensor& w) { return x.matmul(w); }
Tensor relu(const Tensor& x) { return x.clamp_min(0); }
Tensor sigmoid(const Tensor& x) { return 1 / (1 + (-x).exp()); }
Tensor softmax(const Tensor& x) { return x.softmax(-1); }

Tensor arithmetic(const Tensor& a, const Tensor& b) {
  Tensor c = a + b - 2 * a / b;
  c += 1 - a % b;
  c = relu(linear(c, b)) * sigmoid(a) + softmax(b);
  const Tensor both = (a > 0.5) & (b <= 1) | (a == b) ^ (a != 3);
  return c.sum() + both.to(kFloat32).mean() + a[0] - b.select(1, 0).max();
}

std::map<std::string, Metric> metrics_of(const Tensor& a) {
  std::map<std::string, Metric> all;
  all["mean"] = metrics::mean(a);
  return all;
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("net", [&] {
    return Sequential(
        {Dense(context.param("units", 8), {.activation = activations::relu}), Dense(2)});
  });
  const Tensor logits = model(features["x"]);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  const Tensor loss =
      losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss, metrics_of(logits));
  auto adam =
      context.optimizer(optim::adam({.learning_rate = context.param<double>("learning_rate")}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

Dataset rows() {
  return Dataset::from_tensors(Element::dict({{"name", "ann"}, {"city", std::string("Bonn")}}));
}

void write_records(const std::string& path) {
  auto writer = formats::TfrecordWriter::open(local_file_system(), path).value();
}

void loop(const Dataset& features) {
  const auto strategy = distribute::mirrored();
  const auto scope = strategy->scope();
  const Layer model = Dense(1);
  for (const auto& batch : strategy->distribute(features)) {
    strategy->run([&](const Features& x) { return model(x).sum(); }, batch);
    strategy->run([&](const Features& x, const Labels&) { return model(x).sum(); }, batch);
  }
}

// Times are any std::chrono durations, and omitted fields of an option struct have their defaults.
RunConfig config() {
  return {.model_dir = "model",
          .save_checkpoints_secs = 90s,
          .keep_checkpoint_every_n_hours = 2h,
          .train_distribute = distribute::multi_worker_mirrored(
              {.heartbeat_interval = 500ms, .heartbeat_timeout = Seconds(7.5)}),
          .join_timeout = 5min};
}

int main() {
  guard_main();
  Estimator estimator(model_fn, config());
  estimator.train([] { return rows().repeat(); }, {.max_steps = 1});
  estimator.train([](const InputContext&) { return rows(); }, {.max_steps = 1});
  Predictions predictions = estimator.predict(rows, {.allow_untrained = true});
  while (const auto prediction = predictions.next()) (void)prediction->at("logits").sum();
}
