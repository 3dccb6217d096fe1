// Classifies photos: data_dir holds train/ and val/, each with one folder of JPEGs or PNGs for each
// class. Training sees random parts of the photos, evaluation their middle. The predictions for the
// photos in val/ are in predictions.csv afterwards; with --predict=FOLDER it prints the classes of
// new photos instead.
//
// Expected on 40 photos each of ants and bees: about 60 % on photos it has not seen. From so few
// photos, a network that was not trained on others before learns little.
#include <muster/muster.h>

#include <nlohmann/json.hpp>

using namespace muster;

namespace {

constexpr int64_t kSize = 64;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  const auto classes = context.param<int64_t>("classes");
  auto model = context.model("cnn", [classes] {
    return Sequential({Conv2D(16, 3, {.activation = activations::relu}), MaxPooling2D(),
                       Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(),
                       Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(), Flatten(),
                       Dense(64, {.activation = activations::relu}), Dense(classes)});
  });
  Tensor logits = model(features);
  if (mode == Mode::kPredict) {
    return EstimatorSpec::predict(
        {{"class", logits.argmax(-1)}, {"probability", std::get<0>(logits.softmax(-1).max(-1))}});
  }
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) {
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  }
  auto adam =
      context.optimizer(optim::adam({.learning_rate = context.param<double>("learning_rate")}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

// Writes the model's predictions for the photos in `folder`, one line each: the class and its
// probability.
void write_predictions(Estimator& classifier, const std::vector<std::string>& classes,
                       const std::string& folder, const std::string& path) {
  const std::vector<std::string> paths = data::image_files(folder);
  const data::ImageOptions middle{
      .height = kSize, .width = kSize, .fit = data::ImageFit::kCenterCrop};
  Predictions predictions =
      classifier.predict([&] { return data::images_at(paths, middle).batch(32); });
  // Before a file is begun: a model that was not trained is an error of its own.
  auto photo = predictions.next();
  data::CsvWriter file(path);
  for (size_t i = 0; photo; photo = predictions.next(), ++i) {
    const std::string& name = classes.at(static_cast<size_t>(photo->at("class").item<int64_t>()));
    file.write(Element::dict(
        {{"photo", paths[i]}, {"class", name}, {"probability", photo->at("probability")}}));
  }
  file.commit();
  log::info("predictions for the photos in " + folder + ": " + path);
}

void program(const Flags& flags, const std::string& strategy_name, const std::string& predict) {
  const std::vector<std::string> classes = data::image_classes(flags.data_dir + "/train");
  const auto photos = [&](const std::string& split, data::ImageFit fit) {
    return data::image_folder(flags.data_dir + "/" + split,
                              {.height = kSize, .width = kSize, .fit = fit}, {.classes = classes});
  };
  const auto strategy = distribute::strategy_by_name(strategy_name);
  Estimator classifier(model_fn,
                       {.model_dir = flags.model_dir,
                        .random_seed = flags.seed,
                        .save_checkpoints_steps = flags.save_checkpoints_steps.value_or(100),
                        .train_distribute = strategy,
                        .eval_distribute = strategy},
                       {{"learning_rate", flags.learning_rate}, {"classes", classes.size()}});
  if (!predict.empty()) {
    return write_predictions(classifier, classes, predict,
                             flags.model_dir + "/new_predictions.csv");
  }
  // An error in val/ is reported before training, not at the first evaluation.
  const Dataset validation = photos("val", data::ImageFit::kCenterCrop);
  const auto result =
      train_and_evaluate(classifier,
                         {.input_fn =
                              [&] {
                                const Dataset train = photos("train", data::ImageFit::kRandomCrop);
                                return train.shuffle(train.cardinality())
                                    .repeat()
                                    .global_batch(flags.batch_size)
                                    .prefetch();
                              },
                          .max_steps = flags.max_steps.value_or(200)},
                         {.input_fn = [&] { return validation.batch(32); }, .steps = std::nullopt});
  if (!result) return;  // the chief speaks for all
  write_predictions(classifier, classes, flags.data_dir + "/val",
                    flags.model_dir + "/predictions.csv");
  print_result(*result);
}

}  // namespace

int main(int argc, char** argv) {
  std::string strategy = "multi_worker", predict;
  return run_main(argc, argv, [&](const Flags& flags) { program(flags, strategy, predict); },
                  {.description = "Trains a small convolutional network on folders of photos.",
                   .examples = "Examples:\n"
                               "  photos --data_dir=images --model_dir=model\n"
                               "  muster run --workers=2 -- photos --data_dir=images\n"
                               "  photos --data_dir=images --model_dir=model --predict=new\n",
                   .defaults = {.data_dir = "photos",
                                .model_dir = "photos_model",
                                .batch_size = 16,
                                .learning_rate = 1e-3},
                   .uses = {"data_dir", "model_dir", "max_steps", "batch_size", "learning_rate",
                            "seed", "save_checkpoints_steps"},
                   .flags = {{"strategy", &strategy, "one_device, mirrored:N or multi_worker"},
                             {"predict", &predict,
                              "A folder of new photos: tells their classes, and trains nothing"}}});
}
