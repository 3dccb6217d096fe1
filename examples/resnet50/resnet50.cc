// A residual network learns to tell photos apart: a Keras model, made in the scope of a strategy,
// trained with fit() on one process or on the workers of a cluster. data_dir holds one folder of
// JPEGs or PNGs for each class, or train/ and val/ with such folders.
//
//   resnet50 --data_dir=leaves --job-dir=job
//   muster run --workers=2 -- resnet50 --data_dir=leaves --job-dir=job
//   resnet50 --job-dir=job --classify=new_leaves
//
// Expected: on few photos, --depth=18 --image_size=64 --batch_size=16 --epochs=30 reaches more than
// 95 % of those it learned from within some minutes. Ctrl-C stops it; the same command goes on.
#include <fmt/format.h>
#include <muster/muster.h>

#include <nlohmann/json.hpp>

using namespace muster;

namespace {

// Photos are looked at this many times in an epoch, each time in another part and at another size,
// that there are at least so many.
constexpr int64_t kPhotosOfAnEpoch = 400;
// The means and deviations of ImageNet's colors, which weights of others were trained with.
const std::vector<double> kMeans{0.485, 0.456, 0.406}, kDeviations{0.229, 0.224, 0.225};

struct Settings {
  int64_t image_size = 224, depth = 50, batch_size = 64;
  std::string job_dir{}, weights{}, freeze{}, classify{};
};

data::ImageOptions photo_options(const Settings& settings, data::ImageFit fit) {
  return {.height = settings.image_size,
          .width = settings.image_size,
          .fit = fit,
          .mean = kMeans,
          .std = kDeviations,
          .area = {0.35, 1.0}};
}

Functional network(const Settings& settings, int64_t classes) {
  const applications::ResNetOptions options{
      .input_shape = {settings.image_size, settings.image_size, 3},
      .classes = classes,
      .classifier_activation = Activation::kLinear,
      .torchvision = true};
  switch (settings.depth) {
    case 18:
      return applications::ResNet18(options);
    case 34:
      return applications::ResNet34(options);
    case 50:
      return applications::ResNet50(options);
    case 101:
      return applications::ResNet101(options);
    case 152:
      return applications::ResNet152(options);
    default:
      throw Error(ErrorKind::kInvalidArgument, fmt::format("--depth is {}", settings.depth),
                  "there are residual networks of 18, 34, 50, 101 and 152 layers");
  }
}

// What a job trains is next to its weights: classes by label, and the network.
std::string job_file(const Settings& settings) { return settings.job_dir + "/job.json"; }

nlohmann::json job_in(const Settings& settings) {
  const Result<std::string> text = file_systems().read_file(job_file(settings));
  return text.ok() ? nlohmann::json::parse(text.value()) : nlohmann::json();
}

nlohmann::json job_of(const Settings& settings, const std::vector<std::string>& classes) {
  return {{"depth", settings.depth}, {"image_size", settings.image_size}, {"classes", classes}};
}

// Tells the class of each photo in the folder and below it.
void classify(Settings settings) {
  const nlohmann::json job = job_in(settings);
  if (job.is_null()) {
    throw Error(ErrorKind::kNotFound, "there is no " + job_file(settings),
                "train first, with the same --job-dir");
  }
  settings.depth = job.at("depth");
  settings.image_size = job.at("image_size");
  const auto classes = job.at("classes").get<std::vector<std::string>>();
  const std::vector<std::string> paths = data::image_files(settings.classify);
  keras::Model model(network(settings, static_cast<int64_t>(classes.size())));
  model.load_weights(settings.job_dir + "/weights.safetensors");
  const auto [probabilities, labels] =
      model
          .predict(data::images_at(paths, photo_options(settings, data::ImageFit::kCenterCrop))
                       .batch(16))
          .softmax(-1)
          .max(-1);
  data::CsvWriter table(settings.job_dir + "/classes_of_photos.csv");
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const std::string& name = classes.at(static_cast<size_t>(labels[row].item<int64_t>()));
    fmt::print("{}: {} ({:.0f} %)\n", base_name(paths[i]), name,
               100 * probabilities[row].item<float>());
    table.write(
        Element::dict({{"photo", paths[i]}, {"class", name}, {"probability", probabilities[row]}}));
  }
  table.commit();
}

void train(const Flags& flags, const Settings& settings) {
  const bool has_validation = file_systems().exists(flags.data_dir + "/val").value();
  const std::string folder = has_validation ? flags.data_dir + "/train" : flags.data_dir;
  const std::vector<std::string> classes = data::image_classes(folder);
  const auto photos = [&](const std::string& from, data::ImageFit fit) {
    return data::image_folder(from, photo_options(settings, fit), {.classes = classes});
  };

  const nlohmann::json job = job_of(settings, classes), before = job_in(settings);
  if (!before.is_null() && before != job) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} holds a job of another network: {}, and not {}", settings.job_dir,
                            before.dump(), job.dump()),
                "give another --job-dir; --weights begins with the weights of this one");
  }
  if (file_systems().exists(settings.job_dir + "/weights.safetensors").value()) {
    throw Error(ErrorKind::kInvalidArgument, settings.job_dir + " holds a job that is done",
                "give another --job-dir, and --weights=" + settings.job_dir +
                    "/weights.safetensors to continue from it");
  }

  const auto strategy = distribute::multi_worker_mirrored();
  const distribute::Scope scope = strategy->scope();
  const int64_t batch_size = settings.batch_size * strategy->num_replicas_in_sync();

  const Dataset once = photos(folder, data::ImageFit::kRandomCrop);
  const int64_t count = once.cardinality();
  const int64_t times = (kPhotosOfAnEpoch + count - 1) / count;
  const Dataset training = once.shuffle(count)
                               .repeat(times)
                               .batch(batch_size)
                               .with_options({.auto_shard_policy = AutoShardPolicy::kData})
                               .prefetch();
  const Dataset seen = photos(folder, data::ImageFit::kCenterCrop).batch(batch_size);

  keras::Model model(network(settings, static_cast<int64_t>(classes.size())),
                     {.name = "resnet", .seed = flags.seed});
  if (model.is_chief()) {
    file_systems().make_directories(settings.job_dir).value();
    file_systems().write_atomically(job_file(settings), job.dump(1) + "\n").value();
  }
  model.compile({.optimizer = optim::adam({.learning_rate = flags.learning_rate}),
                 .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  if (!settings.weights.empty()) {
    // Of other classes, say: what fits is taken, and a line tells what is not.
    model.load_weights(settings.weights, {.by_name = true, .skip_mismatch = true});
  }
  if (!settings.freeze.empty()) model.freeze({settings.freeze});

  keras::FitOptions fit{
      .epochs = flags.epochs,
      .callbacks = {std::make_shared<keras::BackupAndRestore>(settings.job_dir + "/backup"),
                    std::make_shared<keras::TensorBoard>(settings.job_dir + "/logs")}};
  if (has_validation)
    fit.validation_data = photos(flags.data_dir + "/val", data::ImageFit::kCenterCrop).batch(32);
  const keras::History history = model.fit(training, fit);

  std::map<std::string, double> result{{"training_accuracy", model.evaluate(seen).at("accuracy")}};
  if (has_validation)
    result["validation_accuracy"] = model.evaluate(*fit.validation_data).at("accuracy");
  model.save_weights(settings.job_dir + "/weights.safetensors");
  model.export_model(settings.job_dir + "/export");
  if (!model.is_chief()) return;
  history.plot(settings.job_dir + "/history.svg");
  print_result(result);
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings{.job_dir = "resnet_job"};
  return run_main(
      argc, argv,
      [&](const Flags& flags) {
        if (settings.classify.empty()) {
          train(flags, settings);
        } else {
          classify(settings);
        }
      },
      {.description = "Trains a residual network to tell photos apart.",
       .examples = "Examples:\n"
                   "  resnet50 --data_dir=leaves --job-dir=job\n"
                   "  muster run --workers=2 -- resnet50 --data_dir=leaves --job-dir=job\n"
                   "  resnet50 --data_dir=other --weights=job/weights.safetensors "
                   "--freeze='conv.*'\n"
                   "  resnet50 --job-dir=job --classify=new_leaves\n",
       .defaults = {.data_dir = "photos", .epochs = 5, .learning_rate = 1e-3},
       .uses = {"data_dir", "epochs", "learning_rate", "seed"},
       .flags = {{"job-dir", &settings.job_dir, "Where weights, logs and backups go"},
                 {"image_size",
                  &settings.image_size,
                  "Height and width, in pixels",
                  {.at_least = 32, .at_most = 1024}},
                 {"batch_size",
                  &settings.batch_size,
                  "Photos a step, of each replica",
                  {.at_least = 1, .at_most = 65536}},
                 {"depth", &settings.depth, "Layers: 18, 34, 50, 101 or 152"},
                 {"weights", &settings.weights, "A safetensors file to begin with"},
                 {"freeze", &settings.freeze,
                  "Layers that do not train: a regular expression of their names"},
                 {"classify", &settings.classify,
                  "A folder of photos: tells their classes, and trains nothing"}}});
}
