// Trains a small model, exports it, and sends it a query: is a point inside of the ring between the
// radii 0.5 and 1?
//
//   export_and_serve --model_dir=ring
//   muster serve ring/export --name=ring
//   curl -d '{"instances": [{"point": [0.7, 0.2]}]}' http://127.0.0.1:8501/v1/models/ring:predict
//
// Python reads it too: torch.jit.load("ring/export/<version>/model.pt").
//
// Expected: an accuracy above 95 % after the default 10 epochs; the point of the query is inside.
#include <muster/muster.h>
#include <torch/types.h>

#include <cmath>
#include <cstdio>

using namespace muster;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("ring", [] {
    return Sequential({Dense(32, {.activation = activations::relu}),
                       Dense(32, {.activation = activations::relu}), Dense(2)});
  });
  Tensor logits = model(features["point"]);  // [batch, 2]
  Tensor inside = logits.argmax(-1);
  if (mode == Mode::kPredict) {
    const Tensor scores = logits.softmax(-1);
    return EstimatorSpec::predict(
        {{"inside", inside}, {"scores", scores}},
        {{"serving_default", PredictOutput({{"inside", inside}, {"scores", scores}})},
         {"classify", ClassificationOutput(scores, {"outside", "inside"})}});
  }
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval)
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, inside)}});
  auto adam = context.optimizer(optim::adam({.learning_rate = 0.01}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

// Points of the square from -1 to 1, and whether they are inside. The same seed makes the same
// ones.
Dataset points(int64_t count, uint64_t seed) {
  Tensor point = torch::empty({count, 2}), label = torch::empty({count}, torch::kInt64);
  auto number = point.accessor<float, 2>();
  auto inside = label.accessor<int64_t, 1>();
  Random random(derive_key(seed, {id_of("points")}));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < 2; ++j) number[i][j] = 2 * random.uniform_float() - 1;
    const float radius = std::hypot(number[i][0], number[i][1]);
    inside[i] = radius > 0.5f && radius < 1 ? 1 : 0;
  }
  return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"point", point}}), label}));
}

// Loads the newest export and asks it about two points.
void ask(const std::string& exports) {
  const Predictor predictor(exports);
  std::printf("asking %s\n", predictor.source().c_str());
  for (const auto& [x, y] : {std::pair{0.7f, 0.2f}, std::pair{0.1f, 0.1f}}) {
    const auto answer = predictor.predict({{"point", torch::tensor({x, y})}});
    std::printf("(%.1f, %.1f) is %s\n", x, y,
                answer.at("inside").item<int64_t>() == 1 ? "inside" : "outside");
  }
}

void program(const Flags& flags) {
  const Dataset train = points(20000, 1), test = points(2000, 2);
  Estimator classifier(
      model_fn,
      {.model_dir = flags.model_dir, .random_seed = flags.seed, .save_checkpoints_steps = 500});
  const auto result = train_and_evaluate(
      classifier,
      {.input_fn =
           [&] {
             return train.shuffle(20000).repeat(flags.epochs).global_batch(flags.batch_size);
           }},
      {.input_fn = [&] { return test.batch(500); }, .steps = std::nullopt});
  if (result) print_result(*result);
  const std::string exports = flags.model_dir + "/export";
  classifier.export_model(exports, raw_serving_input_receiver({{"point", {kFloat32, {2}}}}));
  ask(exports);
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Learns a ring, and exports it for a server.",
                   .examples = "Examples:\n"
                               "  export_and_serve --model_dir=ring\n"
                               "  muster serve ring/export --name=ring\n",
                   .defaults = {.model_dir = "ring", .epochs = 10, .batch_size = 100},
                   .uses = {"model_dir", "epochs", "batch_size", "seed"}});
}
