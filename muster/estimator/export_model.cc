#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/export/servable.h"
#include "muster/export/write_servable.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

// Aside of the versions, and of what another process writes.
std::string temporary_name(int64_t seconds) {
  return fmt::format(".temp-{}-{}", seconds, ::getpid());
}

// Removes what processes that are gone left behind.
void remove_leftovers(FileSystem& files, const std::string& directory) {
  const Result<std::vector<std::string>> names = files.list_directory(directory);
  if (!names.ok()) return;
  for (const std::string& name : names.value()) {
    if (!name.starts_with(".temp-")) continue;
    const auto process = parse_int(std::string_view(name).substr(name.rfind('-') + 1));
    if (!process || access(fmt::format("/proc/{}", *process).c_str(), F_OK) == 0) continue;
    if (const Status removed = files.remove_tree(join_path(directory, name)); !removed.ok())
      log::warning(fmt::format("cannot remove a leftover: {}", removed.error().message()));
  }
}

// Removes a folder that was not finished.
class Unfinished {
 public:
  Unfinished(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  ~Unfinished() {
    if (path_.empty()) return;
    if (const Status removed = files_.remove_tree(path_); !removed.ok())
      log::warning(fmt::format("cannot remove {}: {}", path_, removed.error().message()));
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  // Gives the folder the name `seconds`, or the next one that makes it the newest, and returns its
  // path.
  std::string finish(const std::string& directory, int64_t seconds) {
    constexpr int kTries = 10;
    for (int i = 0;; ++i) {
      const auto newest = newest_version(directory, &files_);
      const std::string path =
          join_path(directory, std::to_string(newest ? std::max(seconds, *newest + 1) : seconds));
      const Status renamed = files_.rename(path_, path);
      if (renamed.ok()) {
        path_.clear();
        return path;
      }
      // Another process may have taken the name in between.
      if (i == kTries || !files_.exists(path).value()) throw renamed.error();
    }
  }

 private:
  FileSystem& files_;
  std::string path_;
};

// The model function failed on rows such as the receiver says.
Error does_not_take(const ServingInputReceiver& receiver, const Error& error) {
  std::vector<std::string> features;
  for (const auto& [name, feature] : receiver.features) {
    Shape shape{-1};
    shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
    features.push_back(fmt::format("{} {}", name, TensorInfo{feature.dtype, shape}.describe()));
  }
  return Error(
      error.kind(),
      fmt::format("export_model: the model function failed on features as the receiver says "
                  "they are, {}: {}",
                  join(features, ", "), error.message()),
      "give the receiver the names, dtypes and shapes that the model trained on, and an "
      "example where it does not take zeros");
}

}  // namespace

Batch batch_of_features(const std::map<std::string, Tensor>& features) {
  std::vector<std::pair<std::string, Element>> entries(features.begin(), features.end());
  return {.features = Features(Element::dict(std::move(entries))), .labels = Labels()};
}

std::optional<std::string> Estimator::export_model(const std::string& export_dir,
                                                   const ServingInputReceiver& receiver,
                                                   const ExportModelOptions& options) {
  if (export_dir.empty()) {
    throw invalid_argument("export_model: export_dir is empty",
                           "name a folder for the versions, such as model_dir + \"/export\"");
  }
  if (receiver.features.empty()) {
    throw invalid_argument(
        "export_model: the receiver has no features",
        "make it with raw_serving_input_receiver() or parsing_serving_input_receiver()");
  }
  const cluster::ResolvedCluster& task = impl_->resolve();
  if (!task.is_chief && !task.is_evaluator) return std::nullopt;
  if (!options.checkpoint_path && !impl_->checkpoints().latest() && !impl_->config.warm_start_from)
    throw impl_->not_trained();
  set_threads(0);

  ModelRunner runner(impl_->model_fn, Mode::kPredict, impl_->seed(), impl_->params);
  ServableSource source{.receiver = receiver};
  source.checkpoint =
      impl_->load(runner, {.checkpoint_path = options.checkpoint_path, .use_ema = options.use_ema},
                  "exporting");
  source.global_step = runner.global_step();
  // The first call creates the variables, and is no part of what is traced.
  std::map<std::string, Tensor> rows;
  for (const auto& [name, feature] : receiver.features) {
    Shape shape{1};
    shape.insert(shape.end(), feature.shape.begin(), feature.shape.end());
    rows[name] =
        feature.example ? feature.example->slice(0, 0, 1) : torch::zeros(shape, feature.dtype);
  }
  try {
    runner.build(batch_of_features(rows));
  } catch (const Error& error) {
    throw does_not_take(receiver, error);
  }
  for (const Variable* variable : runner.variables())
    source.weights.emplace_back(variable->name(), variable->value());
  source.function = [&](const ServableSource::Tensors& features) {
    return runner.run(batch_of_features(features), 0).signatures();
  };

  FileSystem& files = impl_->fs();
  const auto seconds = static_cast<int64_t>(impl_->clock().wall_seconds());
  files.make_directories(export_dir).value();
  remove_leftovers(files, export_dir);
  const std::string aside = join_path(export_dir, temporary_name(seconds));
  files.remove_tree(aside).value();
  files.make_directories(aside).value();
  Unfinished folder(files, aside);
  write_servable(files, aside, source);
  const std::string path = folder.finish(export_dir, seconds);
  log::info(fmt::format("exported step {} to {}", source.global_step, path));
  return path;
}

}  // namespace muster::inline v0_1
