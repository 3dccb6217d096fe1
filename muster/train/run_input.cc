#include "muster/train/internal/run_input.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/auto_shard.h"
#include "muster/tensor/device_library.h"

namespace muster::inline v0_1::internal {

using distribute::Replica;
using distribute::ReplicaInput;
using nlohmann::json;

namespace {

// Of the shuffles of an input: the seed it was restored with, if it was.
uint64_t shuffle_seed_of(const ReplicaInput& input) {
  return input.batches().save().at("seed").get<uint64_t>();
}

// Steps of another size are not error, but learning rates and numbers of steps were chosen for one.
void tell_of_batch_size(const Engine& engine, int64_t examples) {
  const int64_t before = engine.restored_inputs().value(
      json::json_pointer("/trained_with/examples_per_step"), int64_t{0});
  if (before == 0 || examples == 0 || before == examples) return;
  if (!engine.replica().is_chief()) return;
  log::warning(
      fmt::format("{} was trained with {} examples a step, now there are {}: the input continues "
                  "at the next example, and a step counts another number of examples",
                  engine.restored_from(), before, examples));
}

// `what` is continued by `restore`.
void restore_or_explain(const std::string& what, const std::function<void()>& restore) {
  try {
    restore();
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{} cannot be continued with this input: {}", what, error.message()),
                "train with the data and the input function the run began with, or in another "
                "model_dir; or set RunConfig.restart_input, which keeps the weights and reads the "
                "input from its beginning; " +
                    error.hint());
  }
}

void restore_input(const Engine& engine, ReplicaInput& input, const json& position,
                   int64_t examples) {
  const Replica& replica = engine.replica();
  const uint64_t own = shuffle_seed_of(input);
  restore_or_explain(engine.restored_from(), [&] { input.restore(position); });
  tell_of_batch_size(engine, examples);
  const uint64_t seed = shuffle_seed_of(input);
  if (seed == own || !replica.is_chief()) return;
  log::warning(own == replica.seed()
                   ? fmt::format("the run began with seed {}, now it is {}: the data keeps the "
                                 "order of seed {}, but random numbers of layers change",
                                 seed, own, seed)
                   : fmt::format("the run began with another seed than {}: the order of the data "
                                 "stays what it was, what layers draw changes",
                                 replica.seed()));
}

}  // namespace

int64_t examples_of_step(const Dataset& dataset, const Replica& replica, int64_t batches) {
  const Result<int64_t> size = data::batch_size_of(dataset);
  if (!size.ok()) return 0;
  const int replicas = data::ends_with_global_batch(dataset)
                           ? 1
                           : replica.num_replicas_in_sync() * joined_devices(replica.device());
  return size.value() * replicas * batches;
}

void continue_input(const Engine& engine, ReplicaInput& input, bool restart,
                    int64_t examples_of_step) {
  const json& inputs = engine.restored_inputs();
  if (inputs.contains("train") && !restart) {
    try {
      restore_input(engine, input, inputs.at("train"), examples_of_step);
    } catch (const Error& error) {
      // Nothing was trained on: a corrected input function need not match.
      if (engine.step() > 0) throw;
      if (engine.replica().is_chief()) {
        log::info(
            fmt::format("no step was made with the input of {}: the input starts from its "
                        "beginning, although it is another one now",
                        engine.restored_from()));
      }
    }
  }
  if (engine.replica().is_chief()) tell_restored(engine, input);
}

int64_t next_pass(const Engine& engine) {
  const json& inputs = engine.restored_inputs();
  const json train = inputs.value("train", json::object());
  json position = train.value("position", json());
  if (train.contains("positions") && !train.at("positions").empty()) {
    position = train.at("positions").at(0);
  }
  return position.is_object() ? position.value("pass", int64_t{0}) + 1 : 1;
}

void tell_restored(const Engine& engine, ReplicaInput& input) {
  const Position position = input.batches().position();
  const std::string& prefix = engine.restored_from();
  log::event("restored",
             {{"checkpoint", prefix},
              {"global_step", engine.step()},
              {"epoch", position.epoch},
              {"sample", position.element_in_epoch}},
             fmt::format("restored {}: continuing after step {}, at epoch {}, sample {}", prefix,
                         engine.step(), position.epoch, position.element_in_epoch));
}

void continue_at(const Engine& engine, ReplicaInput& input, const std::string& position) {
  restore_or_explain("the run", [&] { input.batches().restore(json::parse(position)); });
  // A chief that continues from what servers hold has restored nothing.
  if (engine.replica().is_chief() && !engine.restored_from().empty())
    return tell_restored(engine, input);
  const Position at = input.batches().position();
  log::info(fmt::format("continuing after step {}, at epoch {}, sample {} of this worker's data",
                        engine.step(), at.epoch, at.element_in_epoch));
}

json positions_of(ReplicaInput& input, int64_t examples_of_step) {
  json inputs = json::object();
  inputs["train"] = input.save();
  if (examples_of_step > 0) inputs["trained_with"] = {{"examples_per_step", examples_of_step}};
  return inputs;
}

}  // namespace muster::inline v0_1::internal
