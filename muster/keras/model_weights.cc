// The weights of a Model in files, and what it is as a whole.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/file_systems.h"
#include "muster/files/shared_patience.h"
#include "muster/keras/internal/model_files.h"
#include "muster/keras/internal/model_impl.h"
#include "muster/keras/internal/stored_weights.h"
#include "muster/loop/named_call.h"
#include "muster/loop/replica_context.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/checkpoint_writer.h"

namespace muster::inline v0_1::keras {
namespace {

using nlohmann::json;

// A path of save() that ends with it is a file of ONNX, or of a SavedModel.
constexpr std::string_view kOnnxSuffix = ".onnx", kSavedModelSuffix = "saved_model.pb";
// Under which a checkpoint says which model it is of.
const char* const kModelNote = "keras_model";

// The weights that a message lists: of a network of another depth, hundreds do not fit.
constexpr size_t kShown = 5;

// A problem of one weight, with the name that may have been meant where the message shows it.
std::string with_nearest(const std::string& line, const std::string& name,
                         const std::vector<std::string>& others, size_t place) {
  if (place >= kShown) return line;
  const auto near = nearest(name, others);
  return near ? fmt::format("{} (the nearest is {})", line, *near) : line;
}

// Said where weights do not fit.
constexpr std::string_view kLikelyCause =
    "make the model as the one that saved: with as many layers, of the same sizes and names";

std::string misfits(const char* call, const std::string& file, const std::string& model,
                    const std::vector<std::string>& problems, size_t weights) {
  return fmt::format("{}: {} does not fit the model \"{}\": {} of its {} weights{}", call, file,
                     model, problems.size(), weights, list_lines(problems, kShown, "    "));
}

// The chief writes `content`. All processes meet after it: what it did is done for all of them; or
// a thread of the chief writes. Returns what save_model() returns.
bool write_on_chief(Model& model, Checkpoint content,
                    const std::function<void(const Checkpoint&)>& write,
                    const internal::FileWay& way) {
  Model::Impl& impl = internal::ModelAccess::impl(model);
  const distribute::Scope here = impl.scope();
  const bool is_chief = impl.is_chief();
  const auto in_turn = [write](const Checkpoint& all) {
    // A thread may write to the same path.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    write(all);
  };
  if (!way.waits) {
    way.aside->step = model.step();
    if (!is_chief) return true;
    auto work = [in_turn, content = std::move(content)]() mutable {
      const SharedPatience patience;
      // The thread drops it, so that the next copy has its memory.
      const Checkpoint own = std::exchange(content, {});
      in_turn(own);
      return std::string();
    };
    way.aside->written = muster::internal::write_aside(*way.aside->step, std::move(work)).share();
    return true;
  }
  bool written = true;
  if (is_chief) {
    if (way.failures != nullptr) {
      written = way.failures->attempt(way.must, [&] { in_turn(content); });
    } else {
      in_turn(content);
    }
  }
  return internal::agree_on_written(model, written);
}

// What a file needs of the state.
Checkpoint content_for(Model::Impl& impl, internal::FileAside* aside, bool weights_only) {
  std::vector<std::string> names;
  if (weights_only) names = impl.scope().variable_names();
  using Tensors = std::map<std::string, Tensor>;
  const auto needed = [&](const Tensors& all) {
    if (!weights_only) return all;
    Tensors some;
    for (const std::string& name : names) some[name] = all.at(name);
    return some;
  };
  if (aside != nullptr)
    return impl.state([&](const Tensors& all) { return aside->copy.of(needed(all)); });
  Checkpoint state = impl.state();
  state.tensors = needed(state.tensors);
  return state;
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> Model::get_weights() {
  const distribute::NamedCall call("Model::get_weights()");
  if (impl_->bystander()) return {};
  impl_->require_built("get_weights");
  const distribute::Scope here = impl_->scope();
  const Checkpoint state = here.state();
  std::vector<std::pair<std::string, Tensor>> weights;
  for (const std::string& name : here.variable_names())
    weights.emplace_back(name, state.tensors.at(name));
  return weights;
}

void Model::set_weights(const std::map<std::string, Tensor>& weights) {
  const distribute::NamedCall call("Model::set_weights()");
  if (impl_->bystander()) return;
  impl_->require_built("set_weights");
  impl_->assign_from_chief(weights);
}

void Model::save_weights(const std::string& path) { internal::save_weights(*this, path); }

bool internal::save_weights(Model& model, const std::string& path, const FileWay& way) {
  const distribute::NamedCall call("Model::save_weights()");
  if (!path.ends_with(".safetensors")) {
    throw invalid_argument(fmt::format("save_weights: the path is '{}'", path),
                           "let it end in .safetensors");
  }
  Model::Impl& impl = internal::ModelAccess::impl(model);
  if (impl.bystander()) return true;
  impl.require_built("save_weights");
  Checkpoint weights = content_for(impl, way.aside, /*weights_only=*/true);
  weights.global_step = model.step();
  weights.notes[kModelNote] = model.name();
  return write_on_chief(
      model, std::move(weights),
      [path](const Checkpoint& content) {
        file_systems().make_directories(directory_of(path)).value();
        write_checkpoint(file_systems(), path, content);
      },
      way);
}

LoadedWeights Model::load_weights(const std::string& path, const LoadWeightsOptions& options) {
  const distribute::NamedCall call("Model::load_weights()");
  if (impl_->bystander()) return {};
  impl_->require_built("load_weights");
  if (options.skip_mismatch && !options.by_name) {
    throw invalid_argument("load_weights: skip_mismatch is set without by_name",
                           "set both: {.by_name = true, .skip_mismatch = true}");
  }
  const distribute::Scope here = impl_->scope();
  const std::vector<VariableSpec> specs = here.variable_specs();
  const internal::StoredWeights read =
      internal::read_stored_weights(file_systems(), path, specs, graph());
  const std::string& file = read.file;
  const std::map<std::string, Tensor>& stored = read.tensors;
  const std::vector<std::string>& in_file = read.names;
  std::vector<std::string> in_model;
  for (const VariableSpec& spec : specs) in_model.push_back(spec.name);

  LoadedWeights result;
  std::map<std::string, Tensor> values;
  std::vector<std::string> problems;
  for (const VariableSpec& spec : specs) {
    const auto found = stored.find(spec.name);
    if (found == stored.end()) {
      result.missing.push_back(spec.name);
      problems.push_back(with_nearest(fmt::format("{}: the file has none", spec.describe()),
                                      spec.name, in_file, problems.size()));
    } else if (found->second.sizes() != at::IntArrayRef(spec.shape)) {
      result.mismatched.push_back(
          fmt::format("{}: the file has {}", spec.describe(), describe(found->second)));
      problems.push_back(result.mismatched.back());
    } else {
      values[spec.name] = found->second;
      result.loaded.push_back(spec.name);
    }
  }
  for (const std::string& name : in_file) {
    if (!std::ranges::count(in_model, name)) result.unused.push_back(name);
  }
  if (options.by_name) {
    if (!result.mismatched.empty() && !options.skip_mismatch) {
      throw invalid_argument(misfits("load_weights", file, name(), result.mismatched, specs.size()),
                             "{.skip_mismatch = true} leaves those as they are");
    }
    if (result.loaded.empty() && result.mismatched.empty()) {
      throw invalid_argument(
          fmt::format("load_weights: {} and the model \"{}\" have no weight in common; the file "
                      "has {}, the model {}",
                      file, name(), join_quoted(in_file, 5), join_quoted(in_model, 5)),
          "rename layers, or the file's tensors; applications:: read files with other names");
    }
  } else if (!problems.empty()) {
    throw invalid_argument(
        misfits("load_weights", file, name(), problems, specs.size()),
        std::string(kLikelyCause) + "; {.by_name = true} takes those that both have");
  }
  impl_->assign_from_chief(values);
  if (impl_->is_chief() && options.by_name && result.loaded.size() == specs.size()) {
    log::info(fmt::format("load_weights: loaded all {} weights of the model \"{}\" from {}",
                          specs.size(), name(), file));
  }
  if (impl_->is_chief() && result.loaded.size() < specs.size()) {
    std::vector<std::string> left = result.missing;
    for (const std::string& each : result.mismatched)
      left.push_back(each.substr(0, each.find(':')));
    log::warning(fmt::format(
        "load_weights: loaded {} of the {} weights of the model \"{}\" from {}; unchanged: {}{}",
        result.loaded.size(), specs.size(), name(), file, join_quoted(left, kShown),
        2 * result.loaded.size() < specs.size()
            ? "; with so few, the file may be of a network of another depth or size"
            : ""));
  }
  return result;
}

void Model::save(const std::string& path) {
  if (path.ends_with(kOnnxSuffix)) return internal::export_file(*this, "onnx", path);
  if (path.ends_with(kSavedModelSuffix)) return internal::export_file(*this, "saved_model", path);
  internal::save_model(*this, path);
}

bool internal::save_model(Model& model, const std::string& path, const FileWay& way) {
  const distribute::NamedCall call("Model::save()");
  Model::Impl& impl = internal::ModelAccess::impl(model);
  if (impl.bystander()) return true;
  impl.require_built("save");
  Checkpoint state = content_for(impl, way.aside, /*weights_only=*/false);
  state.notes[kModelNote] = json{
      {"name", model.name()},
      {"optimizer", model.compiled() ? impl.compiled->base.describe() : ""},
      {"rate_factor",
       model.compiled() ? impl.compiled->rate_factor->load()
                        : 1.0}}.dump();
  return write_on_chief(
      model, std::move(state),
      [path](const Checkpoint& content) {
        CheckpointManager manager(path, {.keep_checkpoint_max = 1});
        manager.ensure_writable();
        manager.save(content);
      },
      way);
}

bool internal::agree_on_written(const Model& model, bool written) {
  const auto failed = internal::ModelAccess::impl(model).strategy().run({.training = false}, [&] {
    const distribute::ReplicaContext& replica = distribute::ReplicaContext::current();
    return replica.all_reduce(
        distribute::ReduceOp::kSum,
        torch::full({}, replica.replica_id() == 0 && !written ? 1 : 0, at::kLong));
  });
  return failed[0].item<int64_t>() == 0;
}

bool internal::settle_file(Model& model, FileAside& aside, FailedSaves& failures,
                           const std::string& waiter) {
  const distribute::NamedCall call("ModelCheckpoint");
  const int64_t step = *std::exchange(aside.step, std::nullopt);
  const std::shared_future<std::string> written = std::exchange(aside.written, {});
  bool there = true;
  if (written.valid()) {
    muster::internal::tell_if_it_waits(
        [&](Seconds time) { return written.wait_for(time) == std::future_status::ready; }, waiter,
        step, &aside.waits);
    there = failures.attempt(/*must=*/false, [&] { (void)written.get(); });
  }
  return agree_on_written(model, there);
}

void Model::load(const std::string& path) {
  const distribute::NamedCall call("Model::load()");
  if (impl_->bystander()) return;
  impl_->refuse_while_served("load()");
  impl_->require_built("load");
  if (path.ends_with(kOnnxSuffix)) {
    throw invalid_argument("not supported: load: " + path + " is an ONNX file",
                           "save(folder) writes what load() reads");
  }
  const auto loaded = CheckpointManager(path).load_latest();
  if (!loaded) {
    throw not_found(fmt::format("load: there is no saved model in {}", path),
                    "save(path) writes one; load_weights() reads a file");
  }
  const auto note = loaded->checkpoint.notes.find(kModelNote);
  if (note == loaded->checkpoint.notes.end()) {
    throw invalid_argument(fmt::format("load: {} was not written by Model::save()", loaded->prefix),
                           "load_weights() takes the weights of any checkpoint");
  }
  std::vector<std::string> problems;
  const std::vector<VariableSpec> specs = impl_->scope().variable_specs();
  for (const VariableSpec& spec : specs) {
    const auto found = loaded->checkpoint.tensors.find(spec.name);
    if (found == loaded->checkpoint.tensors.end()) {
      problems.push_back(fmt::format("{}: the file has none", spec.describe()));
    } else if (found->second.sizes() != at::IntArrayRef(spec.shape)) {
      problems.push_back(
          fmt::format("{}: the file has {}", spec.describe(), describe(found->second)));
    }
  }
  if (!problems.empty()) {
    throw invalid_argument(misfits("load", loaded->prefix, name(), problems, specs.size()),
                           std::string(kLikelyCause));
  }
  const json said = json::parse(note->second);
  Checkpoint state = loaded->checkpoint;
  if (compiled() && said.at("optimizer") == impl_->compiled->base.describe()) {
    impl_->compiled->rate_factor->store(said.at("rate_factor").get<double>());
  } else {
    // Slots of another optimizer mean something else.
    std::map<std::string, Tensor> weights;
    for (const std::string& variable : impl_->scope().variable_names())
      weights[variable] = state.tensors.at(variable);
    state.tensors = std::move(weights);
  }
  impl_->begin_again(state);
}

}  // namespace muster::inline v0_1::keras
