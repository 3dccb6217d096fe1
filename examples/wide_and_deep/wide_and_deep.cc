// A wide and deep model of feature columns (Cheng et al., 2016): predicts which of the Titanic's
// passengers were saved. data_dir holds train.csv and eval.csv with the columns below. The wide
// part learns a weight for each category, and for each combination of two; the deep part vectors
// for categories, and a network over them.
//
// Expected: an accuracy of about 78 %.
#include <muster/muster.h>

using namespace muster;
using namespace muster::feature_column;

namespace {

struct Columns {
  FeatureColumn age =
      numeric_column("age", {.normalizer_fn = [](const Tensor& x) { return (x - 30) / 13; }});
  FeatureColumn fare = numeric_column(
      "fare", {.normalizer_fn = [](const Tensor& x) { return x.clamp_min(0).log1p() - 3; }});
  FeatureColumn ages = bucketized_column(numeric_column("age"), {6, 14, 18, 25, 35, 50, 65});
  FeatureColumn sex = categorical_column_with_vocabulary_list("sex", {"male", "female"});
  FeatureColumn cabin =
      categorical_column_with_vocabulary_list("class", {"First", "Second", "Third"});
  FeatureColumn deck = categorical_column_with_hash_bucket("deck", 20);
  FeatureColumn town = categorical_column_with_hash_bucket("embark_town", 10);

  std::vector<FeatureColumn> wide{sex,
                                  cabin,
                                  deck,
                                  town,
                                  ages,
                                  crossed_column({"sex", "class"}, 50),
                                  crossed_column({ages, "sex"}, 100)};
  std::vector<FeatureColumn> deep{age,
                                  fare,
                                  indicator_column(sex),
                                  indicator_column(cabin),
                                  embedding_column(deck, 4),
                                  embedding_column(town, 2)};
  std::vector<FeatureColumn> all() const {
    std::vector<FeatureColumn> both = wide;
    both.insert(both.end(), deep.begin(), deep.end());
    return both;
  }
};

ModelFn model_of(const Columns& columns) {
  const LinearModel wide(columns.wide);
  const DenseFeatures deep(columns.deep);
  return [=](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
    const auto network = context.model("network", [] {
      return Sequential({Dense(32, {.activation = activations::relu}),
                         Dense(16, {.activation = activations::relu}), Dense(1)});
    });
    CallContext& calls = context.calls();
    const Tensor logits = wide(features, calls) + network(deep(features, calls));
    const Tensor probability = logits.sigmoid().squeeze(1);
    if (mode == Mode::kPredict) return EstimatorSpec::predict({{"probability", probability}});
    const Tensor survived = labels.tensor().to(kFloat32).reshape({-1, 1});
    const Tensor loss = losses::binary_crossentropy(survived, logits, {.from_logits = true});
    if (mode == Mode::kEval) {
      return EstimatorSpec::eval(
          loss, {{"accuracy", metrics::accuracy(labels, probability.gt(0.5).to(kInt64))}});
    }
    const auto adagrad = context.optimizer(
        optim::adagrad({.learning_rate = context.param<double>("learning_rate")}));
    return EstimatorSpec::train(loss, adagrad.minimize(loss));
  };
}

void program(const Flags& flags) {
  const Columns columns;
  const auto csv =
      data::csv_format(csv_options(columns.all(), {"survived", data::CsvKind::kInt64}));
  const auto rows = [&](const std::string& file) {
    return Dataset::from_files({flags.data_dir + "/" + file}, csv);
  };
  const auto to_numbers = resolve(columns.all());
  const auto training = [&] {
    return rows("train.csv")
        .shuffle(1000)
        .repeat()
        .global_batch(flags.batch_size)
        .map(to_numbers)
        .prefetch();
  };
  const auto strategy = distribute::multi_worker_mirrored();
  Estimator saved(model_of(columns),
                  {.model_dir = flags.model_dir,
                   .random_seed = flags.seed,
                   .train_distribute = strategy,
                   .eval_distribute = strategy},
                  {{"learning_rate", flags.learning_rate}});
  const auto result =
      train_and_evaluate(saved, {.input_fn = training, .max_steps = flags.max_steps.value_or(500)},
                         {.input_fn = [&] { return rows("eval.csv").batch(256).map(to_numbers); },
                          .steps = std::nullopt});
  if (result) print_result(*result);  // the chief speaks for all
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(
      argc, argv, program,
      {.description = "Trains a wide and deep model on train.csv and eval.csv.",
       .examples = "Examples:\n"
                   "  wide_and_deep --data_dir=titanic\n"
                   "  muster run --workers=2 -- wide_and_deep --data_dir=titanic\n",
       .defaults = {.data_dir = "titanic",
                    .model_dir = "wide_and_deep_model",
                    .batch_size = 32,
                    .learning_rate = 0.05},
       .uses = {"data_dir", "model_dir", "max_steps", "batch_size", "learning_rate", "seed"}});
}
