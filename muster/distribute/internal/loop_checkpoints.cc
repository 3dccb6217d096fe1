// Checkpoints of loops written by hand, and the data sets whose position they hold.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribute/internal/data_progress.h"
#include "muster/distribute/internal/loop.h"
#include "muster/tensor/finite.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

DistributedDataset Loop::distribute(const Dataset& dataset, bool for_this_process) {
  auto progress = std::make_shared<DistributedDataset::Progress>();
  std::erase_if(data_, [](const auto& known) { return known.expired(); });
  const size_t number = data_.size();
  data_.push_back(progress);
  // Each position is one data set's: what is dealt later in its place begins anew.
  if (restored_ && number < restored_->data.size() && !restored_->data[number].is_null())
    progress->restore(std::exchange(restored_->data[number], nullptr));
  return DistributedDataset(shared_from_this(), dataset, for_this_process, std::move(progress));
}

std::string Loop::save(const std::string& model_dir, const SaveOptions& options) {
  if (!built_) {
    throw invalid_argument("save() was called before anything was trained",
                           "save after a run() that called minimize()");
  }
  if (const int64_t waiting = session().accumulated(); waiting > 0) {
    throw invalid_argument(
        fmt::format("save() was called where {} of {} batches wait for their update", waiting,
                    session().accumulate_steps()),
        "save when step() has changed, or call apply_accumulated() before");
  }
  json data = json::array();
  for (const auto& known : data_) {
    if (const auto progress = known.lock()) data.push_back(progress->save());
  }
  std::string prefix;
  each([&](Session& session, size_t) {
    session.report(Phase::kSaving, step_);
    Checkpoint checkpoint{.global_step = step_, .inputs = json{{"loop", data}}.dump()};
    checkpoint.tensors = session.checkpoint_state();
    if (session.is_chief()) {
      if (auto bad = find_non_finite(session.variables(), checkpoint.tensors)) {
        throw Error(
            ErrorKind::kNonFinite,
            fmt::format("after step {} the {}; nothing was saved", step_, *bad),
            "lower the learning rate or clip gradients, and continue from the last checkpoint");
      }
      if (!targets_.contains(model_dir)) {
        CheckpointManager(model_dir).ensure_writable();
        targets_.try_emplace(model_dir, model_dir, options);
      }
      Target& target = targets_.at(model_dir);
      target.lock.check();
      prefix = target.checkpoints.save(checkpoint);
    }
    session.barrier("saved");
    session.report(Phase::kEvaluating, step_);
  });
  return prefix;
}

bool Loop::restore(const std::string& model_dir) {
  if (built_) {
    throw invalid_argument(fmt::format("restore() was called after {} steps", step_),
                           "restore before the first run() that trains");
  }
  Restored restored;
  json note;
  each([&](Session& session, size_t local) {
    json mine;
    if (session.is_chief()) {
      restored.checkpoint = CheckpointManager(model_dir).load_latest();
      if (restored.checkpoint) {
        const Checkpoint& checkpoint = restored.checkpoint->checkpoint;
        mine = {{"step", checkpoint.global_step}, {"inputs", json::parse(checkpoint.inputs)}};
      }
    }
    // The chief's is the only one that is not empty.
    const std::string text = mine.is_null() ? "" : mine.dump();
    for (const std::string& each : session.gather_text("restored", text)) {
      if (local == 0 && !each.empty()) note = json::parse(each);
    }
  });
  if (note.is_null()) return false;
  step_ = note.at("step").get<int64_t>();
  restored.data = note.at("inputs").value("loop", json::array());
  std::erase_if(data_, [](const auto& known) { return known.expired(); });
  for (size_t d = 0; d < data_.size() && d < restored.data.size(); ++d)
    data_[d].lock()->restore(std::exchange(restored.data[d], nullptr));
  if (restored.checkpoint) {
    log::event(
        "restored", {{"checkpoint", restored.checkpoint->prefix}, {"global_step", step_}},
        fmt::format("restored {}: continuing after step {}", restored.checkpoint->prefix, step_));
  }
  restored_ = std::move(restored);
  for (const auto& replica : replicas_) replica->restored = 0;
  return true;
}

void Loop::restore_variables(Replica& replica) {
  torch::NoGradGuard no_grad;
  Session& session = *replica.session;
  const auto& variables = session.variables().variables();
  for (; replica.restored < variables.size(); ++replica.restored) {
    const Tensor value = variables[replica.restored]->value().detach();
    if (session.is_chief()) {
      const std::string& name = variables[replica.restored]->name();
      const Checkpoint& checkpoint = restored_->checkpoint->checkpoint;
      const auto found = checkpoint.tensors.find(name);
      if (found == checkpoint.tensors.end() || found->second.sizes() != value.sizes() ||
          found->second.scalar_type() != value.scalar_type()) {
        throw invalid_argument(
            fmt::format("{} holds {} for the variable {}", restored_->checkpoint->prefix,
                        found == checkpoint.tensors.end() ? "nothing" : describe(found->second),
                        variables[replica.restored]->spec().describe()),
            "evaluate with the model that was trained, or without restore()");
      }
      Tensor(value).copy_(found->second);
    }
  }
  std::vector<Tensor> values;
  for (const auto& variable : variables) values.push_back(variable->value());
  session.broadcast(values);
}

}  // namespace muster::inline v0_1::distribute
