// Writes each kind of summary there is, in two runs of different hyperparameters below --model_dir,
// for tools/peers/tensorboard.py, which looks at them in TensorBoard. With --live a third run lasts
// for the given number of seconds, so that a user may look while it is running.
#include <muster/muster.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <thread>

#include "muster/base/clock.h"
#include "muster/formats/hparams.h"
#include "muster/summary/event_writer.h"

using namespace muster;

namespace {

constexpr int64_t kSteps = 60, kWidth = 24;

// Two pictures: a disc that grows in each channel, transparent if there is a last channel for that.
Tensor pictures(int64_t channels) {
  const Tensor line = torch::linspace(-1, 1, kWidth);
  const Tensor radius = (line.square().unsqueeze(0) + line.square().unsqueeze(1)).sqrt();
  std::vector<Tensor> planes;
  for (int64_t i = 0; i < channels; ++i)
    planes.push_back((radius < 0.4 + 0.2 * static_cast<double>(i)).to(kFloat32));
  const Tensor one = torch::stack(planes, -1);
  return torch::stack({one, 1 - one});
}

// A tone of 440 Hz for half a second, a fifth higher on a second channel.
Tensor tones(int64_t channels) {
  constexpr int64_t kRate = 8000;
  const Tensor time = torch::arange(kRate / 2).to(kFloat32) / kRate;
  std::vector<Tensor> sounds;
  for (int64_t i = 0; i < channels; ++i)
    sounds.push_back(0.5 * (2 * std::numbers::pi * 440 * (1 + 0.5 * double(i)) * time).sin());
  return torch::stack(sounds, -1).unsqueeze(0);
}

void show(Summaries& summary, const Tensor& x, const Tensor& weight) {
  summary.scalar("mean", [&] { return x.mean(); });
  summary.scalar("odd/not_a_number", std::numeric_limits<double>::quiet_NaN());
  summary.scalar("odd/infinite", std::numeric_limits<double>::infinity());
  summary.scalar("größe", 1.5);
  summary.histogram("x", x);
  summary.histogram("odd/constant", torch::full({5}, 2.0));
  summary.histogram("odd/zeros", torch::zeros({5}));
  summary.histogram("odd/wide", torch::tensor({-1e30, -1.0, 0.0, 1e-30, 1e30}));
  summary.histogram("weight", weight);
  summary.image("grey", pictures(1));
  summary.image("grey_alpha", pictures(2), {.max_outputs = 1});
  summary.image("rgb", [] { return pictures(3).mul(255).to(kUInt8); });
  summary.image("rgba", pictures(4), {.max_outputs = 1});
  summary.audio("mono", tones(1), {.sample_rate = 8000});
  summary.audio("stereo", tones(2), {.sample_rate = 8000, .max_outputs = 1});
  summary.text("note", "A **bold** word, `code` and\n\n| a | b |\n|---|---|\n| 1 | 2 |");
  summary.text_table("table", {{"layer", "units"}, {"hidden", "16"}});
  summary.tensor("row", x[0]);
  summary.custom_scalars(
      {{.title = "together",
        .charts = {{.title = "loss and mean", .tags = {"loss", "mean"}},
                   {.title = "with a band", .margins = {{"mean", "band/lower", "band/upper"}}}}}});
  const auto band = summary.scope("band");
  summary.scalar("lower", [&] { return x.mean() - 0.1; });
  summary.scalar("upper", [&] { return x.mean() + 0.1; });
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  const auto model = context.model("net", [&] {
    return Sequential(
        {Dense(context.param<int64_t>("units"), {.activation = activations::relu}), Dense(1)});
  });
  const Tensor predicted = model(features["x"]);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"y", predicted}});
  const Tensor& scale = context.variable({.name = "scale",
                                          .shape = {3},
                                          .initializer = initializers::glorot_uniform(),
                                          .trainable = false});
  show(context.summary(), features["x"], scale);
  const Tensor loss = losses::mean_squared_error(labels, predicted);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  auto sgd = context.optimizer(optim::sgd({.learning_rate = context.param<double>("rate")}));
  return EstimatorSpec::train(loss, sgd.minimize(loss));
}

// A run that is looked at while it trains has to last: without a pause it is over before
// TensorBoard reads its first step.
class Pause : public Hook {
 public:
  explicit Pause(Seconds pause) : pause_(pause) {}
  void after_step(const StepInfo&) override { std::this_thread::sleep_for(pause_); }

 private:
  Seconds pause_;
};

void train(const std::string& folder, int64_t units, double rate, Seconds pause,
           int64_t steps = kSteps) {
  Estimator estimator(model_fn,
                      {.model_dir = folder,
                       .save_summary_steps = 5,
                       .save_checkpoints_steps = 20,
                       .log_step_count_steps = 5},
                      {{"units", units},
                       {"rate", rate},
                       {"deep", units > 8},
                       {"activation", "relu"},
                       {"sizes", {units, 1}}});
  const InputFn input = [] {
    const Tensor x = torch::linspace(-1, 1, 256).unsqueeze(1);
    return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"x", x}}), x.square()}))
        .shuffle(256)
        .repeat()
        .batch(32);
  };
  (void)train_and_evaluate(
      estimator,
      {.input_fn = input,
       .max_steps = steps,
       .hooks = {std::make_shared<Pause>(pause), hooks::profiler({.every = {.steps = 30}})}},
      {.input_fn = input, .steps = 4});
}

}  // namespace

int main(int argc, char** argv) {
  double live = 0;
  return run_main(
      argc, argv,
      [&](const Flags& flags) {
        if (live > 0) {
          train(flags.model_dir + "/live", 16, 0.1, Seconds(live / kSteps));
          return;
        }
        summary::EventWriter writer(flags.model_dir, file_systems(), system_clock());
        writer.add_values(
            {formats::hparams_experiment(
                {{.name = "units", .domain = {8.0, 16.0}}, {.name = "rate"}, {.name = "deep"}},
                {{.tag = "loss", .group = "eval", .display_name = "loss of the evaluation"}},
                std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                    .count())},
            0);
        writer.close();
        train(flags.model_dir + "/first", 8, 0.05, Seconds(0));
        // This run ends with a step whose summaries are written, and continues.
        train(flags.model_dir + "/second", 16, 0.1, Seconds(0), 41);
        train(flags.model_dir + "/second", 16, 0.1, Seconds(0));
      },
      {.description = "Writes each kind of summary.",
       .defaults = {.model_dir = "summaries"},
       .uses = {"model_dir"},
       .flags = {{"live", &live, "seconds that a third run lasts"}}});
}
