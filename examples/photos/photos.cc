// Photos told apart by class: data_dir holds train/ and val/, each with one folder of JPEGs or PNGs
// for each class. Training sees random parts of the photos, evaluation their middle.
//
// Expected on 40 photos each of ants and bees: about 60 % on photos it has not seen. So few photos
// teach a network little that has not learned from others before.
#include <muster/muster.h>

#include <nlohmann/json.hpp>

using namespace muster;

namespace {

constexpr int64_t kSize = 64;

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  const int64_t classes = context.params()["classes"];
  auto model = context.model("cnn", [classes] {
    return Sequential({Conv2D(16, 3, {.activation = relu}), MaxPooling2D(),
                       Conv2D(32, 3, {.activation = relu}), MaxPooling2D(),
                       Conv2D(32, 3, {.activation = relu}), MaxPooling2D(), Flatten(),
                       Dense(64, {.activation = relu}), Dense(classes)});
  });
  Tensor logits = model(features);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) {
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  }
  auto adam = context.optimizer(optim::adam({.learning_rate = context.params()["learning_rate"]}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

void program(const Flags& flags) {
  const std::vector<std::string> classes = data::image_classes(flags.data_dir + "/train");
  const auto photos = [&](const std::string& split, data::ImageFit fit) {
    return data::image_folder(flags.data_dir + "/" + split,
                              {.height = kSize, .width = kSize, .fit = fit}, {.classes = classes});
  };
  Estimator classifier(model_fn,
                       {.model_dir = flags.model_dir,
                        .random_seed = flags.seed,
                        .save_checkpoints_steps = flags.save_checkpoints_steps.value_or(100)},
                       {{"learning_rate", flags.learning_rate}, {"classes", classes.size()}});
  const auto result = train_and_evaluate(
      classifier,
      {.input_fn =
           [&] {
             const Dataset train = photos("train", data::ImageFit::kRandomCrop);
             return train.shuffle(train.cardinality()).repeat().batch(flags.batch_size).prefetch();
           },
       .max_steps = flags.max_steps.value_or(200)},
      {.input_fn = [&] { return photos("val", data::ImageFit::kCenterCrop).batch(32); },
       .steps = std::nullopt});
  if (result) print_result(*result);
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Trains a small convolutional network on folders of photos.",
                   .examples = "Examples:\n"
                               "  photos --data_dir=images --model_dir=model\n",
                   .defaults = {.data_dir = "photos",
                                .model_dir = "photos_model",
                                .batch_size = 16,
                                .learning_rate = 1e-3},
                   .uses = {"data_dir", "model_dir", "max_steps", "batch_size", "learning_rate",
                            "seed", "save_checkpoints_steps"}});
}
