// Distinguishes two classes by the rows of CSV files: data_dir holds train.csv and eval.csv, with a
// header. Columns of numbers go into the network as they are, brought to a similar scale; columns
// of texts as one bit for each text. The predictions for the rows of eval.csv are in
// predictions.csv afterwards; with --predict=FILE it prints the classes of new rows instead.
//
// Expected on the Titanic's passengers (--label=survived): an accuracy of about 80 %.
#include <muster/muster.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <set>

using namespace muster;

namespace {

// Number of bits that the texts of a column share: with few texts, two rarely share one.
constexpr int64_t kBuckets = 64;

// Facts about the table before training starts: its columns, and the label that class 1 has.
struct Table {
  data::CsvOptions csv;
  std::string positive{};  // empty: labels are numbers

  // The files' rows without their labels, which they need not have.
  Dataset features(const std::string& file) const {
    data::CsvOptions unlabelled = csv;
    unlabelled.label.clear();
    std::erase_if(unlabelled.columns, [&](const auto& column) { return column.name == csv.label; });
    return Dataset::from_files({file}, data::csv_format(unlabelled));
  }
};

// log(1 + |x|) with the sign of x: an age and an income become numbers of one size; NaN becomes 0.
Tensor squashed(const Tensor& numbers) {
  return (numbers.sign() * numbers.abs().log1p()).nan_to_num(0.0).unsqueeze(1);
}

Tensor one_hot(const Strings& texts, const std::string& column) {
  Tensor bits = torch::zeros({texts.size(), kBuckets});
  for (int64_t row = 0; row < texts.size(); ++row) {
    const uint64_t hash = id_of(column + "=" + std::string(texts[row]));
    bits[row][static_cast<int64_t>(hash % kBuckets)] = 1;
  }
  return bits;
}

// A batch of rows, {column: values}, as float32[n, width].
Tensor encode_features(const Element& features) {
  std::vector<Tensor> parts;
  for (const std::string& column : features.structure().keys) {
    const Value& value = features.at(column).value();
    parts.push_back(value.is_strings() ? one_hot(value.strings(), column)
                                       : squashed(value.tensor().to(kFloat32)));
  }
  return torch::cat(parts, 1);
}

// A batch of rows, ({column: values}, label), as (float32[n, width], int64[n]).
Element encode(const Table& table, const Element& batch) {
  const Tensor features = encode_features(batch.part(0));
  const Value& label = batch.part(1).value();
  if (label.is_tensor()) return Element::tuple({features, label.tensor().to(kInt64)});
  Tensor labels = torch::zeros({label.rows()}, kInt64);
  for (int64_t row = 0; row < label.rows(); ++row) {
    labels[row] = label.strings()[row] == table.positive ? 1 : 0;
  }
  return Element::tuple({features, labels});
}

// The texts among the labels of a file, of which a large one is read in part. Throws
// InvalidArgument for numbers other than 0 and 1.
std::set<std::string> texts_of_labels(const Dataset& rows, const std::string& file) {
  constexpr int64_t kRows = 100000;
  std::set<std::string> texts;
  const auto batches = rows.take(kRows).batch(1000).iterator();
  while (const auto batch = batches->next()) {
    const Value label = batch->part(1).value();
    if (label.is_tensor()) {
      const Tensor numbers = label.tensor();
      if (((numbers != 0) & (numbers != 1)).any().item<bool>()) {
        throw Error(ErrorKind::kInvalidArgument,
                    "the labels of " + file + " are numbers other than 0 and 1",
                    "name another column with --label");
      }
      continue;
    }
    for (int64_t row = 0; row < label.rows(); ++row) texts.emplace(label.strings()[row]);
  }
  return texts;
}

std::string quoted(const std::set<std::string>& texts) {
  std::string some;
  for (const std::string& text : texts) {
    if (some.size() < 100) some += " '" + text + "'";
  }
  return some;
}

// Called before training: throws InvalidArgument for labels that do not say what class 1 is, and
// for an evaluation file whose labels differ from those of the training file.
void check_labels(const Table& table, const std::string& train, const std::string& eval) {
  const auto texts_of = [&](const std::string& file) {
    return texts_of_labels(Dataset::from_files({file}, data::csv_format(table.csv)), file);
  };
  const std::set<std::string> known = texts_of(train), evaluated = texts_of(eval);
  if (!known.empty() && (table.positive.empty() || !known.contains(table.positive))) {
    throw Error(ErrorKind::kInvalidArgument,
                table.positive.empty()
                    ? "the labels are texts:" + quoted(known)
                    : "no label is '" + table.positive + "'; there are" + quoted(known),
                "say which of them is class 1: --positive=TEXT");
  }
  for (const std::string& text : evaluated) {
    if (known.contains(text)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                eval + " has the label '" + text + "'; those of " + train + " are" + quoted(known),
                "write the labels of both files alike");
  }
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("classifier", [] {
    return Sequential({Dense(32, {.activation = activations::relu}),
                       Dense(16, {.activation = activations::relu}), Dense(2)});
  });
  Tensor logits = model(features);
  if (mode == Mode::kPredict) {
    return EstimatorSpec::predict(
        {{"class", logits.argmax(-1)}, {"probability", logits.softmax(-1).select(1, 1)}});
  }
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) {
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  }
  auto adam =
      context.optimizer(optim::adam({.learning_rate = context.param<double>("learning_rate")}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

// Writes the model's predictions for the rows of `rows`, one line each: the class, and the
// probability of class 1.
void write_predictions(Estimator& classifier, const Table& table, const std::string& rows,
                       const std::string& path) {
  Predictions predictions =
      classifier.predict([&] { return table.features(rows).batch(256).map(encode_features); },
                         {.yield_single_examples = false});
  // Before a file is begun: a model that was not trained is an error of its own.
  auto batch = predictions.next();
  data::CsvWriter file(path);
  for (; batch; batch = predictions.next()) {
    file.write(
        Element::dict({{"class", batch->at("class")}, {"probability", batch->at("probability")}}));
  }
  file.commit();
  log::info("predictions for the rows of " + rows + ": " + path);
}

// The flags of this program alone.
struct Options {
  std::string label = "label";
  std::string positive{};
  std::string predict{};
  std::string strategy = "multi_worker";
};

void program(const Flags& flags, const Options& options) {
  const std::string train = flags.data_dir + "/train.csv", eval = flags.data_dir + "/eval.csv";
  // The kinds of the columns, from the first rows of one file, for both.
  const Table table{
      .csv = data::infer_csv(train, {.label = options.label, .missing_number = std::nan("")}),
      .positive = options.positive};
  const auto rows = [&](const std::string& file) {
    return Dataset::from_files({file}, data::csv_format(table.csv));
  };
  const auto encoded = [&table](const Element& batch) { return encode(table, batch); };
  const auto strategy = distribute::strategy_by_name(options.strategy);
  Estimator classifier(model_fn,
                       {.model_dir = flags.model_dir,
                        .random_seed = flags.seed,
                        .save_checkpoints_steps = flags.save_checkpoints_steps.value_or(500),
                        .train_distribute = strategy,
                        .eval_distribute = strategy},
                       {{"learning_rate", flags.learning_rate}});
  if (!options.predict.empty()) {
    return write_predictions(classifier, table, options.predict,
                             flags.model_dir + "/new_predictions.csv");
  }
  check_labels(table, train, eval);
  const auto result = train_and_evaluate(
      classifier,
      {.input_fn =
           [&] {
             // Workers share out the rows of the one file.
             return rows(train).shuffle(10000).repeat().global_batch(flags.batch_size).map(encoded);
           },
       .max_steps = flags.max_steps.value_or(1000)},
      {.input_fn = [&] { return rows(eval).batch(256).map(encoded); }, .steps = std::nullopt});
  if (!result) return;  // the chief speaks for all
  write_predictions(classifier, table, eval, flags.model_dir + "/predictions.csv");
  print_result(*result);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  return run_main(
      argc, argv, [&](const Flags& flags) { program(flags, options); },
      {.description = "Trains a classifier of two classes on CSV files: train.csv and eval.csv.",
       .examples = "Examples:\n"
                   "  tabular --data_dir=titanic --label=survived\n"
                   "  tabular --data_dir=census --label=income --positive='>50K'\n"
                   "  muster run --workers=2 -- tabular --data_dir=titanic --label=survived\n"
                   "  tabular --data_dir=titanic --label=survived --predict=passengers.csv\n",
       .defaults = {.data_dir = "table",
                    .model_dir = "tabular_model",
                    .batch_size = 32,
                    .learning_rate = 1e-3},
       .uses = {"data_dir", "model_dir", "max_steps", "batch_size", "learning_rate", "seed",
                "save_checkpoints_steps"},
       .flags = {
           {"label", &options.label, "The column to predict"},
           {"positive", &options.positive, "The text that is class 1, where labels are texts"},
           {"predict", &options.predict,
            "A file of new rows: tells their classes, and trains nothing"},
           {"strategy", &options.strategy, "one_device, mirrored:N or multi_worker"}}});
}
