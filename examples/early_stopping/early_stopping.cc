// Hooks and early stopping: a small classifier of noisy rows learns them by heart after a while,
// and its loss on other rows rises again. The run ends when that loss did not get lower for
// `--patience` steps, whatever max_steps allows. A hook of this file keeps the best evaluation and
// prints it.
//
// Expected: the run ends long before step 5000 with a line "early stopping at step ...: loss did
// not decrease in ... steps". Started again it makes no step, for nothing changed; with a larger
// --patience it continues where it stopped.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

using namespace muster;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("net", [] {
    return Sequential({Dense(64, {.activation = activations::relu}), Dense(2)});
  });
  Tensor logits = model(features["x"]);  // [batch, 2]
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"class", logits.argmax(-1)}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  Metric accuracy = metrics::accuracy(labels, logits.argmax(-1));
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss, {{"accuracy", accuracy}});
  const auto learning_rate = context.param<double>("learning_rate");
  auto adam = context.optimizer(optim::adam({.learning_rate = learning_rate}));
  return EstimatorSpec::train(loss, adam.minimize(loss), {{"accuracy", accuracy}});
}

// Rows of ten uniform numbers; the class is whether the first five weigh more than the last five,
// and wrong in every fifth row.
Dataset rows(int64_t count, uint64_t seed) {
  Tensor x = torch::empty({count, 10});
  auto number = x.accessor<float, 2>();
  Random random(derive_key(seed, {id_of("rows")}));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < 10; ++j) number[i][j] = static_cast<float>(random.uniform());
  }
  const Tensor right = x.slice(1, 0, 5).sum(1).gt(x.slice(1, 5, 10).sum(1)).to(kInt64);
  const Tensor wrong = torch::arange(count).remainder(5).eq(0).to(kInt64);
  return Dataset::from_tensor_slices(
      Element::tuple({Element::dict({{"x", x}}), right.bitwise_xor(wrong)}));
}

// Tells at the end which evaluation of this run was the best.
class BestEvaluation : public Hook {
 public:
  void begin(const RunInfo&) override { step_ = -1; }
  void after_evaluate(int64_t global_step, const std::string&,
                      const std::map<std::string, double>& results) override {
    if (step_ >= 0 && results.at("loss") >= loss_) return;
    step_ = global_step;
    loss_ = results.at("loss");
  }
  void end(int64_t) override {
    if (step_ >= 0)
      log::info(fmt::format("the best evaluation: step {}, loss {:.4f}", step_, loss_));
  }

 private:
  int64_t step_ = -1;
  double loss_ = 0;
};

int main(int argc, char** argv) {
  int64_t patience = 200;
  return run_main(
      argc, argv,
      [&](const Flags& flags) {
        const Dataset train = rows(200, 1), test = rows(500, 2);
        Estimator classifier(model_fn,
                             {.model_dir = flags.model_dir,
                              .random_seed = flags.seed,
                              .save_checkpoints_steps = 50,
                              .log_step_count_steps = 500,
                              .train_distribute = distribute::multi_worker_mirrored()},
                             {{"learning_rate", flags.learning_rate}});
        const auto result = train_and_evaluate(
            classifier,
            {.input_fn = [&] { return train.shuffle(200).repeat().global_batch(flags.batch_size); },
             .max_steps = flags.max_steps.value_or(5000),
             .hooks = {hooks::stop_if_no_decrease("loss", patience),
                       std::make_shared<BestEvaluation>()}},
            {.input_fn = [&] { return test.batch(100); }, .steps = std::nullopt});
        if (result) print_result(*result);
      },
      {.description = "Trains until an evaluation does not get better any more.",
       .examples = "Examples:\n"
                   "  early_stopping --model_dir=stopped\n"
                   "  early_stopping --model_dir=stopped --patience=400\n"
                   "  muster run --workers=2 -- early_stopping --model_dir=two\n",
       .defaults = {.model_dir = "early_stopping", .batch_size = 20, .learning_rate = 0.01},
       .uses = {"model_dir", "max_steps", "batch_size", "learning_rate", "seed"},
       .flags = {{"patience", &patience, "steps without a lower loss that end the run"}}});
}
