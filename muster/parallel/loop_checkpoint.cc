#include "muster/parallel/loop_checkpoint.h"

#include <fmt/format.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/manager.h"
#include "muster/parallel/cluster.h"
#include "muster/parallel/internal/cluster_impl.h"
#include "muster/parallel/internal/share_value.h"
#include "muster/parallel/internal/worker_data_impl.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/save_together.h"
#include "muster/train/state_copy.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

constexpr const char* kOptimizerState = "/torch_optimizer";

Tensor bytes_tensor(const std::string& bytes) {
  Tensor tensor = torch::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, static_cast<char*>(tensor.data_ptr()));
  return tensor;
}

std::string bytes_in(const Tensor& tensor) {
  const Tensor here = tensor.contiguous();
  return {static_cast<const char*>(here.data_ptr()), static_cast<size_t>(here.numel())};
}

// "net" and "fc.weight": "net/fc/weight".
std::string tensor_name(const std::string& module, std::string key) {
  std::ranges::replace(key, '.', '/');
  return module + "/" + key;
}

}  // namespace

class LoopCheckpoint::Impl {
 public:
  Impl(std::shared_ptr<Cluster::Impl> cluster, std::string directory,
       const LoopCheckpointOptions& options)
      : cluster_(std::move(cluster)), directory_(std::move(directory)), options_(options) {
    saver_ = std::make_shared<Cluster::Impl::Saver>(
        Cluster::Impl::Saver{.save_with_others = [this] { (void)write(0, {}); },
                             .share = [this](int root) { share(root); }});
    number_ = cluster_->add_saver(saver_);
    cluster_->view().show_in(directory_);
  }

  void claim(const std::string& name) {
    if (name.empty() || name.find('/') != std::string::npos || contains(names_, name)) {
      throw invalid_argument(fmt::format("LoopCheckpoint::add() was given the name \"{}\"", name),
                             contains(names_, name)
                                 ? "it was given before; each thing has a name of its own"
                                 : "give it a name without \"/\"");
    }
    names_.push_back(name);
  }

  int64_t restore() {
    return cluster_->call({.text = "LoopCheckpoint::restore()"}, [&] {
      const CheckpointManager checkpoints(directory_);
      json told;
      if (replica().is_chief()) {
        if (const auto found = checkpoints.load_latest()) {
          told = {{"step", found->checkpoint.global_step},
                  {"prefix", found->prefix},
                  {"inputs", json::parse(found->checkpoint.inputs)}};
          take(found->checkpoint, found->prefix);
        }
      }
      told = json::parse(replica().group().gather_text("restored", told.dump()).front());
      if (told.is_null()) return int64_t{0};
      if (!cluster_->alone()) share(0, /*with_modules=*/true);
      take_positions(told.at("inputs"), told.at("prefix"));
      cluster_->view().set_step(told.at("step").get<int64_t>());
      if (replica().is_chief()) {
        log::info(fmt::format("restored {}: continuing after step {}",
                              told.at("prefix").get<std::string>(),
                              told.at("step").get<int64_t>()));
      }
      return told.at("step").get<int64_t>();
    });
  }

  std::string save(int64_t step, const LoopSaveOptions& options) {
    if (step < 0) {
      throw invalid_argument(fmt::format("LoopCheckpoint::save() was given the step {}", step),
                             "count updates from 0");
    }
    return cluster_->call({.kind = internal::CallMeeting::Kind::kSave,
                           .number = number_,
                           .text = fmt::format("LoopCheckpoint::save() to \"{}\"", directory_)},
                          [&] { return write(step, options); });
  }

  std::map<std::string, std::shared_ptr<torch::nn::Module>> modules;
  std::map<std::string, torch::optim::Optimizer*> optimizers;
  std::map<std::string, int64_t*> whole_numbers;
  std::map<std::string, double*> numbers;
  struct Reader {
    std::function<std::string()> save{};
    std::function<void(const std::string&)> restore{};
  };
  std::map<std::string, Reader> readers;
  std::map<std::string, std::shared_ptr<WorkerData::Impl>> data;

 private:
  distribute::Replica& replica() { return cluster_->replica(); }

  // All workers call it; step and options are those of workers that have data.
  std::string write(int64_t step, const LoopSaveOptions& options) {
    torch::NoGradGuard no_grad;
    const plan::InActivity saves(plan::Activity::kSaving);
    (void)pending_.settle(replica(), fmt::format("the save of step {}", step));
    cluster_->sync_buffers();
    json positions = json::object();
    for (const auto& [name, reader] : readers) {
      positions[name] = replica().group().gather_text("position of " + name, reader.save());
    }
    json data_positions = json::object();
    for (const auto& [name, each] : data) data_positions[name] = each->save();
    int64_t newest = step;
    bool asynchronous = false;
    const json mine = {step, options.asynchronous};
    for (const std::string& text : replica().group().gather_text("step", mine.dump())) {
      const json told = json::parse(text);
      newest = std::max(newest, told[0].get<int64_t>());
      asynchronous |= told[1].get<bool>();
    }
    cluster_->view().set_step(newest);
    const bool aside = asynchronous && saved_before_;
    saved_before_ = true;
    std::map<std::string, Tensor> tensors;
    if (replica().is_chief()) {
      tensors = state();
      if (aside) tensors = copy_.of(tensors);
      if (asynchronous && !aside) copy_.prepare(tensors);
      if (!aside || !copy_.all_finite()) check_finite(newest);
    }
    const Saved made = save_together(
        replica(),
        [&]() -> CheckpointWriter& {
          if (!writer_)
            writer_.emplace(
                directory_,
                CheckpointManagerOptions{.keep_checkpoint_max = options_.keep_checkpoint_max},
                [this] { return cluster_->cancelled(); });
          return *writer_;
        },
        [&]() -> CheckpointInParts {
          return Checkpoint{.tensors = std::move(tensors),
                            .global_step = newest,
                            .inputs = json{{"readers", positions}, {"data", data_positions}}.dump(),
                            .notes = {{"program", "LoopCheckpoint"}}};
        },
        {}, {.aside = aside ? &pending_ : nullptr});
    if (made.await) return join_path(directory_, fmt::format("model.ckpt-{}", newest));
    return made.prefix;
  }

  // The last good checkpoint must not make room for one that nothing can continue from.
  void check_finite(int64_t step) const {
    for_each_tensor([&](const std::string& name, const Tensor& value) {
      if (!value.is_floating_point()) return;
      const auto bad = find_non_finite(name, value);
      if (!bad) return;
      throw Error(ErrorKind::kNonFinite,
                  fmt::format("after step {} the {}; nothing was saved", step, *bad),
                  "lower the learning rate or clip gradients, and continue from the last "
                  "checkpoint");
    });
  }

  // Modules by tensor, what else there is by name.
  std::map<std::string, Tensor> state() const {
    std::map<std::string, Tensor> tensors;
    for_each_tensor([&](const std::string& name, const Tensor& value) {
      tensors.emplace(name, value.detach());
    });
    for (const auto& [name, optimizer] : optimizers)
      tensors.emplace(name + kOptimizerState, bytes_tensor(serialized(*optimizer)));
    for (const auto& [name, number] : whole_numbers)
      tensors.emplace(name, torch::full({}, *number, at::kLong));
    for (const auto& [name, number] : numbers)
      tensors.emplace(name, torch::full({}, *number, at::kDouble));
    return tensors;
  }

  void for_each_tensor(const std::function<void(const std::string&, const Tensor&)>& fn) const {
    for (const auto& [name, module] : modules) {
      for (const auto& item : module->named_parameters())
        fn(tensor_name(name, item.key()), item.value());
      for (const auto& item : module->named_buffers())
        fn(tensor_name(name, item.key()), item.value());
    }
  }

  // On the chief: everything gets the values of the checkpoint.
  void take(const Checkpoint& checkpoint, const std::string& prefix) {
    torch::NoGradGuard no_grad;
    std::map<std::string, TensorSpec> needed;
    for (const auto& [name, tensor] : state()) {
      // The length of an optimizer's state is its own.
      const bool bytes = name.ends_with(kOptimizerState);
      const auto found = checkpoint.tensors.find(name);
      needed[name] = {.shape = bytes && found != checkpoint.tensors.end()
                                   ? found->second.sizes().vec()
                                   : tensor.sizes().vec(),
                      .dtype = tensor.scalar_type()};
    }
    compare(needed, checkpoint, prefix).throw_if_incompatible();
    const auto& tensors = checkpoint.tensors;
    for_each_tensor([&](const std::string& name, const Tensor& value) {
      Tensor(value).copy_(tensors.at(name));
    });
    for (const auto& [name, optimizer] : optimizers)
      deserialize(bytes_in(tensors.at(name + kOptimizerState)), optimizer);
    for (const auto& [name, number] : whole_numbers) *number = tensors.at(name).item<int64_t>();
    for (const auto& [name, number] : numbers) *number = tensors.at(name).item<double>();
  }

  // What is added becomes that of worker `root`, on all. The Cluster shares modules itself, unless
  // `with_modules`.
  void share(int root, bool with_modules = false) {
    const auto give = [&](const Tensor& value) { internal::share_value(replica(), value, root); };
    if (with_modules)
      for_each_tensor([&](const std::string&, const Tensor& value) { give(value); });
    const bool mine = replica().replica_id() == root;
    for (const auto& [name, optimizer] : optimizers) {
      Tensor bytes = bytes_tensor(mine ? serialized(*optimizer) : "");
      const Tensor size = torch::full({1}, bytes.numel(), at::kLong);
      give(size);
      if (!mine) bytes = torch::empty({size.item<int64_t>()}, at::kByte);
      give(bytes);
      if (!mine) deserialize(bytes_in(bytes), optimizer);
    }
    for (const auto& [name, number] : whole_numbers) {
      const Tensor value = torch::full({1}, *number, at::kLong);
      give(value);
      *number = value.item<int64_t>();
    }
    for (const auto& [name, number] : numbers) {
      const Tensor value = torch::full({1}, *number, at::kDouble);
      give(value);
      *number = value.item<double>();
    }
  }

  static void check_position(const json& all, const std::string& what, const std::string& name,
                             const std::string& prefix) {
    if (all.contains(name)) return;
    throw invalid_argument(fmt::format("{} holds no position of the {} \"{}\"", prefix, what, name),
                           "it was saved by another program; give this run a directory of its own");
  }

  void take_positions(const json& inputs, const std::string& prefix) {
    const json places = inputs.value("data", json::object());
    for (const auto& [name, each] : data) {
      check_position(places, "data set", name, prefix);
      each->restore(places.at(name));
    }
    const json all = inputs.value("readers", json::object());
    for (const auto& [name, reader] : readers) {
      check_position(all, "reader", name, prefix);
      const auto positions = all.at(name).get<std::vector<std::string>>();
      const auto workers = static_cast<size_t>(replica().place().replicas());
      if (positions.size() == workers) {
        reader.restore(positions[static_cast<size_t>(replica().replica_id())]);
        continue;
      }
      if (std::ranges::any_of(positions, [&](const auto& each) { return each != positions[0]; })) {
        throw invalid_argument(
            fmt::format("{} holds a position of the reader \"{}\" for each of {} workers, and they "
                        "differ; this run has {}",
                        prefix, name, positions.size(), workers),
            "continue with as many workers, or save a position that is the same on all of them: "
            "how many examples all workers have read together");
      }
      reader.restore(positions[0]);
    }
  }

  static std::string serialized(const torch::optim::Optimizer& optimizer) {
    std::ostringstream stream;
    torch::save(optimizer, stream);
    return stream.str();
  }
  static void deserialize(const std::string& bytes, torch::optim::Optimizer* optimizer) {
    std::istringstream stream(bytes);
    torch::load(*optimizer, stream);
  }
  static bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  }

  const std::shared_ptr<Cluster::Impl> cluster_;
  const std::string directory_;
  const LoopCheckpointOptions options_;
  std::shared_ptr<Cluster::Impl::Saver> saver_;
  int number_ = 0;  // of saver_
  std::vector<std::string> names_;
  std::optional<CheckpointWriter> writer_;  // on the chief, from the first save on
  bool saved_before_ = false;
  StateCopy copy_;  // on the chief
  PendingSave pending_;
};

LoopCheckpoint& LoopCheckpoint::add_module(const std::string& name,
                                           std::shared_ptr<torch::nn::Module> module) {
  impl_->claim(name);
  impl_->modules.emplace(name, std::move(module));
  return *this;
}

LoopCheckpoint& LoopCheckpoint::add(const std::string& name, torch::optim::Optimizer& optimizer) {
  impl_->claim(name);
  impl_->optimizers.emplace(name, &optimizer);
  return *this;
}

LoopCheckpoint& LoopCheckpoint::add(const std::string& name, GradScaler& scaler) {
  impl_->claim(name);
  impl_->numbers.emplace(name + "/scale", &scaler.state_.scale);
  impl_->whole_numbers.emplace(name + "/good_steps", &scaler.state_.good_steps);
  return *this;
}

LoopCheckpoint& LoopCheckpoint::add(const std::string& name, int64_t& number) {
  impl_->claim(name);
  impl_->whole_numbers.emplace(name, &number);
  return *this;
}

LoopCheckpoint& LoopCheckpoint::add(const std::string& name, double& number) {
  impl_->claim(name);
  impl_->numbers.emplace(name, &number);
  return *this;
}

LoopCheckpoint& LoopCheckpoint::add(const std::string& name, std::function<std::string()> save,
                                    std::function<void(const std::string&)> restore) {
  impl_->claim(name);
  impl_->readers.emplace(name,
                         Impl::Reader{.save = std::move(save), .restore = std::move(restore)});
  return *this;
}

LoopCheckpoint& LoopCheckpoint::add(const std::string& name, const WorkerData& data) {
  impl_->claim(name);
  impl_->data.emplace(name, data.impl_);
  return *this;
}

int64_t LoopCheckpoint::restore() { return impl_->restore(); }
std::string LoopCheckpoint::save(int64_t step, const LoopSaveOptions& options) {
  return impl_->save(step, options);
}

LoopCheckpoint Cluster::checkpoint(const std::string& directory) {
  return checkpoint(directory, {});
}

LoopCheckpoint Cluster::checkpoint(const std::string& directory,
                                   const LoopCheckpointOptions& options) {
  return LoopCheckpoint(std::make_shared<LoopCheckpoint::Impl>(impl_, directory, options));
}

}  // namespace muster::inline v0_1
