// Explains what a linear classifier learned about the Titanic's passengers: the weight of each
// value of its columns, with the values in each hash bucket, and which features it needs most.
// data_dir holds train.csv and eval.csv with the columns below.
//
// Expected: an accuracy of about 79 %; sex, class and their cross come first.
#include <muster/muster.h>

#include <iostream>

using namespace muster;
using namespace muster::feature_column;

void program(const Flags& flags) {
  const auto ages = bucketized_column(numeric_column("age"), {6, 14, 18, 25, 35, 50, 65});
  const std::vector<FeatureColumn> columns{
      categorical_column_with_vocabulary_list("sex", {"male", "female"}),
      categorical_column_with_vocabulary_list("class", {"First", "Second", "Third"}),
      categorical_column_with_hash_bucket("embark_town", 10),
      ages,
      crossed_column({"sex", "class"}, 50),
      crossed_column({ages, "sex"}, 100)};
  const auto csv = data::csv_format(csv_options(columns, {"survived", data::CsvKind::kInt64}));
  const auto rows = [&](const char* file) {
    return Dataset::from_files({flags.data_dir + "/" + file}, csv);
  };

  Estimator saved = LinearClassifier({.feature_columns = columns},
                                     {.model_dir = flags.model_dir, .random_seed = flags.seed});
  saved.train([&] {
    return rows("train.csv").shuffle(1000).repeat(flags.epochs).batch(32).map(resolve(columns));
  });
  print_result(saved.evaluate([&] { return rows("eval.csv").batch(256).map(resolve(columns)); }));

  // The weights of the model, and the features that it needs most.
  const auto texts = [&] { return rows("train.csv").batch(256); };  // name the hash buckets
  std::cout << explain(saved, columns, {.data = texts}).to_table(10) << "\n";
  const auto evaluate = [&](const InputFn& input) {
    return saved.evaluate(input, {.name = "shuffled"});  // events of its own
  };
  std::cout << permutation_importance(evaluate, [&] { return rows("eval.csv").batch(256); },
                                      {.metric = "auc", .transform = resolve(columns)})
                   .to_table();
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Trains a linear classifier, and says what it learned.",
                   .defaults = {.data_dir = "titanic", .model_dir = "explained", .epochs = 50},
                   .uses = {"data_dir", "model_dir", "epochs", "seed"}});
}
