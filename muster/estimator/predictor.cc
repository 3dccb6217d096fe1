#include "muster/estimator/predictor.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/train/optimizer_tensors.h"

namespace muster::inline v0_1 {
namespace {

using Tensors = Predictor::Tensors;

// The model that answers. It never changes; reload() makes another one.
class Model {
 public:
  explicit Model(std::string source) : source_(std::move(source)) {}
  virtual ~Model() = default;
  virtual Tensors run(const Tensors& features) = 0;
  virtual Tensors run(const Element& features) = 0;
  // Gets ready for requests of this form, with an answered one.
  virtual void warm_up(const Tensors& features) = 0;
  const std::string& source() const { return source_; }

 private:
  const std::string source_;
};

class ExportedModel final : public Model {
 public:
  ExportedModel(const std::string& folder, std::string signature, FileSystem& files)
      : Model(folder), servable_(folder, &files), signature_(std::move(signature)) {
    (void)servable_.signature(signature_);
  }
  Tensors run(const Tensors& features) override { return servable_.run(signature_, features); }
  Tensors run(const Element& features) override {
    return servable_.run_features(signature_, features);
  }
  void warm_up(const Tensors&) override {}  // loading does

 private:
  const Servable servable_;
  const std::string signature_;
};

class CheckpointModel final : public Model {
 public:
  CheckpointModel(ModelFn model_fn, uint64_t seed, const nlohmann::json& params,
                  const Checkpoint& checkpoint, const std::string& prefix)
      : Model(prefix),
        params_(params),
        runner_(std::move(model_fn), Mode::kPredict, seed, params_) {
    runner_.load(&checkpoint, prefix);
  }
  Tensors run(const Tensors& features) override { return run(batch_of_features(features)); }
  Tensors run(const Element& features) override {
    if (features.structure().kind != Structure::Kind::kDict) {
      throw invalid_argument(fmt::format("the features are {}", features.describe()),
                             "give them by name, as a dict");
    }
    return run(to_batch(features));
  }
  void warm_up(const Tensors& features) override { (void)run(features); }

 private:
  Tensors run(const Batch& batch) {
    const std::lock_guard lock(mutex_);
    return runner_.run(batch, 0).predictions;
  }

  const nlohmann::json params_;
  std::mutex mutex_;
  ModelRunner runner_;
};

using ModelPtr = std::shared_ptr<Model>;

}  // namespace

struct Predictor::Impl {
  // Loads the newest model, unless that is `current`: then it returns nullptr.
  std::function<ModelPtr(const std::string& current)> load{};
  mutable std::mutex mutex{};
  ModelPtr model;
  mutable Tensors recent;  // features that were answered, for the next model to get ready with
  mutable std::atomic<bool> remembers{false};
  std::mutex reloading{};  // one at a time

  ModelPtr in_use() const {
    const std::lock_guard lock(mutex);
    return model;
  }

  Tensors run(const Tensors& features) const {
    const ModelPtr answering = in_use();
    Tensors outputs = answering->run(features);
    if (!remembers.load(std::memory_order_acquire)) {
      const std::lock_guard lock(mutex);
      // A copy: the caller may use its memory for something else.
      for (const auto& [name, value] : features) recent[name] = value.clone();
      remembers.store(true, std::memory_order_release);
    }
    return outputs;
  }

  bool reload() {
    const std::lock_guard one(reloading);
    ModelPtr next = load(in_use()->source());
    if (!next) return false;
    Tensors features;
    {
      const std::lock_guard lock(mutex);
      features = recent;
    }
    if (!features.empty()) next->warm_up(features);
    const std::lock_guard lock(mutex);
    model.swap(next);
    return true;
  }
};

Predictor::Predictor(Estimator& estimator, const PredictorOptions& options)
    : impl_(std::make_unique<Impl>()) {
  set_threads(0);
  Estimator::Impl& of = *estimator.impl_;
  const auto not_trained = of.not_trained();
  impl_->load = [model_fn = of.model_fn, seed = of.seed(), params = of.params,
                 directory = of.directory(), fs = of.config.fs, clock = of.config.clock, options,
                 not_trained](const std::string& current) -> ModelPtr {
    const CheckpointManager manager(directory, {.fs = fs, .clock = clock});
    CheckpointManager::Loaded loaded;
    if (options.checkpoint_path) {
      if (*options.checkpoint_path == current) return nullptr;
      loaded = {.prefix = *options.checkpoint_path,
                .checkpoint = manager.load(*options.checkpoint_path)};
    } else {
      const auto latest = manager.latest();
      if (!latest) throw not_trained;
      if (*latest == current) return nullptr;
      auto newest = manager.load_latest();
      if (!newest) throw not_trained;
      if (newest->prefix == current) return nullptr;
      loaded = *std::move(newest);
    }
    if (options.use_ema) use_moving_averages(loaded.checkpoint, loaded.prefix);
    return std::make_shared<CheckpointModel>(model_fn, seed, params, loaded.checkpoint,
                                             loaded.prefix);
  };
  impl_->model = impl_->load("");
}

Predictor::Predictor(const std::string& export_dir, const ExportedPredictorOptions& options)
    : impl_(std::make_unique<Impl>()) {
  set_threads(0);
  FileSystem& files = options.fs != nullptr ? *options.fs : file_systems();
  // A folder without versions may be a version itself.
  const bool one = !newest_version(export_dir, &files);
  impl_->load = [export_dir, one, signature = options.signature,
                 &files](const std::string& current) -> ModelPtr {
    const auto newest = newest_version(export_dir, &files);
    if (!one && !newest) throw not_found(export_dir + " holds no version of a model any more");
    const std::string folder = one ? export_dir : join_path(export_dir, std::to_string(*newest));
    if (folder == current) return nullptr;
    return std::make_shared<ExportedModel>(folder, signature, files);
  };
  impl_->model = impl_->load("");
}

Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;

Predictor::Tensors Predictor::predict(const Tensors& features) const {
  Tensors batch;
  for (const auto& [name, value] : features) batch[name] = value.unsqueeze(0);
  Tensors outputs = impl_->run(batch);
  for (auto& [name, value] : outputs) {
    if (value.dim() > 0 && value.size(0) == 1) value = value.squeeze(0);
  }
  return outputs;
}

Predictor::Tensors Predictor::predict_batch(const Tensors& features) const {
  return impl_->run(features);
}

Predictor::Tensors Predictor::predict_features(const Element& batch) const {
  return impl_->in_use()->run(batch);
}

bool Predictor::reload() { return impl_->reload(); }
std::string Predictor::source() const { return impl_->in_use()->source(); }

}  // namespace muster::inline v0_1
