// A plane through noisy points, found by a canned estimator: on one process, or on the workers of a
// cluster. It prints the result next to the true values.
//
// Expected: weights and bias to 0.01 of y = 3 a - 2 b + 1, and a loss of 0.25, which is the
// variance of the noise: no plane can do better. On any number of workers the same.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

using namespace muster;
using feature_column::numeric_column;

namespace {

constexpr double kWeightOfA = 3, kWeightOfB = -2, kBias = 1, kNoise = 0.5;

// `count` points, and how high the plane is there, with noise.
Dataset points(int64_t count, uint64_t seed, const char* part) {
  Random random(derive_key(seed, {id_of("plane"), id_of(part)}));
  const Tensor a = torch::empty({count}), b = torch::empty({count}), y = torch::empty({count});
  for (int64_t i = 0; i < count; ++i) {
    const double at_a = random.normal(), at_b = random.normal();
    a[i] = at_a;
    b[i] = at_b;
    y[i] = kWeightOfA * at_a + kWeightOfB * at_b + kBias + kNoise * random.normal();
  }
  return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"a", a}, {"b", b}}), y}));
}

void program(const Flags& flags) {
  const std::vector<FeatureColumn> columns{numeric_column("a"), numeric_column("b")};
  const auto resolved = feature_column::resolve(columns);
  const Dataset train = points(10000, flags.seed, "train");
  const Dataset test = points(10000, flags.seed, "test");
  const auto strategy = distribute::multi_worker_mirrored();
  Estimator plane = LinearRegressor({.feature_columns = columns}, {.model_dir = flags.model_dir,
                                                                   .random_seed = flags.seed,
                                                                   .train_distribute = strategy,
                                                                   .eval_distribute = strategy});
  const auto result = train_and_evaluate(
      plane,
      {.input_fn =
           [&] {
             return train.shuffle(10000)
                 .repeat(flags.epochs)
                 .global_batch(flags.batch_size)
                 .map(resolved);
           }},
      {.input_fn = [&] { return test.batch(1000).map(resolved); }, .steps = std::nullopt});
  if (!result) return;  // the chief speaks for all
  const auto found = [&](const std::string& name) {
    return plane.get_variable_value("linear/linear_model/" + name).item<float>();
  };
  fmt::print("y = {:.3f} a {:+.3f} b {:+.3f}, made of y = {} a {:+} b {:+}\n", found("a/weights"),
             found("b/weights"), found("bias_weights"), kWeightOfA, kWeightOfB, kBias);
  print_result(*result);
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(
      argc, argv, program,
      {.description = "Fits a plane to noisy points with a linear regressor.",
       .examples = "Examples:\n"
                   "  linear_regressor\n"
                   "  muster run --workers=2 -- linear_regressor\n",
       .defaults = {.model_dir = "linear_regressor_model", .epochs = 10, .batch_size = 100},
       .uses = {"model_dir", "epochs", "batch_size", "seed"}});
}
