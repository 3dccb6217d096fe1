// A layer of one's own, RMS normalization, in a model that needs it: which of eight numbers is the
// largest, when each row has a volume of its own?
//
// Expected: an accuracy above 95 % after the default 10 epochs, on any number of workers.
#include <muster/muster.h>
#include <torch/types.h>

#include <cmath>

using namespace muster;

// Divides each row by the root of the mean of its squares, then scales it as was learned.
class RMSNormalizationImpl : public UnaryLayerImpl {
 public:
  RMSNormalizationImpl(double epsilon, std::string name)
      : UnaryLayerImpl("rms_normalization", std::move(name)), epsilon_(epsilon) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    const int64_t width = input.size(-1);
    const Tensor& gamma = context.variable(identity(), 0, [&] {
      return VariableSpec{.name = "gamma", .shape = {width}, .initializer = initializers::ones()};
    });
    const Tensor mean_square = input.square().mean(-1, /*keepdim=*/true);
    return input * (mean_square + epsilon_).rsqrt() * gamma;
  }

 private:
  double epsilon_;
};

// The function for models; the name is optional, as everywhere.
Layer RMSNormalization(double epsilon = 1e-3, std::string name = {}) {
  return Layer(std::make_shared<RMSNormalizationImpl>(epsilon, std::move(name)));
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("loudest", [] {
    return Sequential({RMSNormalization(), Dense(32, {.activation = activations::relu}), Dense(8)});
  });
  Tensor logits = model(features);  // [batch, 8]
  Tensor classes = logits.argmax(-1);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"class", classes}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) {
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, classes)}});
  }
  auto adam = context.optimizer(optim::adam({.learning_rate = 0.01}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

// Rows of eight normal numbers, some a thousand times louder than others, and the place of the
// largest of them. The same seed makes the same rows.
Dataset rows(int64_t count, uint64_t seed) {
  Tensor x = torch::empty({count, 8});
  auto number = x.accessor<float, 2>();
  Random random(derive_key(seed, {id_of("rows")}));
  for (int64_t i = 0; i < count; ++i) {
    const double volume = std::pow(1000, random.uniform());
    for (int64_t j = 0; j < 8; ++j) number[i][j] = static_cast<float>(volume * random.normal());
  }
  return Dataset::from_tensor_slices(Element::tuple({x, x.argmax(-1)}));
}

void program(const Flags& flags) {
  const Dataset train = rows(20000, 1), test = rows(2000, 2);
  const InputFn train_input = [&] {
    return train.shuffle(20000).repeat(flags.epochs).global_batch(flags.batch_size);
  };
  Estimator classifier(model_fn, {.model_dir = flags.model_dir,
                                  .random_seed = flags.seed,
                                  .train_distribute = distribute::multi_worker_mirrored()});
  const auto result =
      train_and_evaluate(classifier, {.input_fn = train_input},
                         {.input_fn = [&] { return test.batch(500); }, .steps = std::nullopt});
  if (result) print_result(*result);
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Finds the largest of eight numbers, at any volume.",
                   .examples = "Examples:\n"
                               "  own_layer --model_dir=loudest\n"
                               "  muster run --workers=2 -- own_layer --model_dir=loudest\n",
                   .defaults = {.model_dir = "loudest", .epochs = 10, .batch_size = 100},
                   .uses = {"model_dir", "epochs", "batch_size", "seed"}});
}
