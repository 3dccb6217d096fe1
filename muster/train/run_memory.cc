#include "muster/train/run_memory.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/log.h"
#include "muster/base/secret.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/memory_donor.h"

namespace muster::inline v0_1::internal {

using nlohmann::json;

namespace {

using distribute::Replica;

// What the others must know of the state of one of them.
json describe(const RunMemory& memory) {
  const json writes = {{"step", memory.in_flight.step}, {"may_fail", memory.in_flight.may_fail}};
  if (memory.epoch < 0) return {{"chief", memory.chief}, {"epoch", -1}, {"writes", writes}};
  return {{"chief", memory.chief},
          {"writes", writes},
          {"epoch", memory.epoch},
          {"step", memory.state->global_step},
          {"inputs", memory.state->inputs},
          {"notes", memory.state->notes},
          {"whole", memory.whole},
          {"saved_step", memory.saves.saved_step},
          {"tried_step", memory.saves.tried_step},
          {"last_step", memory.last_step},
          {"skipped_steps", memory.skipped_steps},
          {"roll_backs", memory.roll_backs}};
}

json describe_tensors(const Checkpoint& state) {
  json tensors = json::array();
  for (const auto& [name, tensor] : state.tensors) {
    tensors.push_back(
        {{"name", name}, {"shape", tensor.sizes().vec()}, {"dtype", int(tensor.scalar_type())}});
  }
  return tensors;
}

// The tensors of the donor, given to all; only the chief keeps them.
std::map<std::string, Tensor> fetch(Replica& replica, int donor, const RunMemory& mine) {
  const bool gives = replica.replica_id() == donor;
  const std::string list = gives ? describe_tensors(*mine.state).dump() : "";
  std::map<std::string, Tensor> tensors;
  for (const json& one : json::parse(
           replica.group().gather_text("memory of one", list)[static_cast<size_t>(donor)])) {
    const auto name = one.at("name").get<std::string>();
    const auto dtype = static_cast<DType>(one.at("dtype").get<int>());
    // Bytes arrive as they are; only the donor has any.
    Tensor bytes = torch::empty({0}, at::kByte);
    if (gives) bytes = mine.state->tensors.at(name).contiguous().view({-1}).view(at::kByte);
    Tensor all = replica.exchange().gather(bytes, 0)[static_cast<size_t>(donor)];
    if (!replica.is_chief()) continue;
    tensors[name] = all.clone().view(dtype).view(one.at("shape").get<std::vector<int64_t>>());
  }
  return tensors;
}

}  // namespace

std::shared_ptr<const Checkpoint> remember(const Engine& engine,
                                           const std::map<std::string, Tensor>& named,
                                           const json& inputs, int64_t epoch,
                                           const std::map<std::string, std::string>& notes) {
  auto state = std::make_shared<Checkpoint>();
  state->notes = notes;
  state->epoch = epoch;
  for (const auto& [name, tensor] : named)
    state->tensors[name] = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  state->global_step = engine.step();
  state->inputs = inputs.dump();
  return state;
}

bool continue_from_memory(Engine& engine, RunMemory& mine) {
  Replica& replica = engine.replica();
  if (replica.is_chief() && mine.chief.empty()) mine.chief = random_secret().substr(0, 16);
  std::vector<json> all;
  std::vector<RememberedStep> steps;
  for (const std::string& text : replica.group().gather_text("memory", describe(mine).dump())) {
    const json& of = all.emplace_back(json::parse(text));
    steps.push_back({of.at("chief").get<std::string>(), of.at("epoch").get<int64_t>(),
                     of.value("step", int64_t{-1})});
  }
  if (mine.chief != steps.front().chief) mine = {.chief = steps.front().chief};
  const json& writes = all.front().at("writes");
  mine.in_flight = {writes.at("step").get<int64_t>(), writes.at("may_fail").get<bool>()};
  const int donor = find_donor(steps);
  if (donor < 0) return false;
  const json& of = all[static_cast<size_t>(donor)];
  Checkpoint state;
  if (donor != 0) {
    state.tensors = fetch(replica, donor, mine);
    if (replica.is_chief())
      log::info(fmt::format("replica {} has made step {}: its state is taken", donor,
                            of.at("step").get<int64_t>()));
  } else if (replica.is_chief()) {
    state.tensors = mine.state->tensors;
  }
  state.global_step = of.at("step").get<int64_t>();
  state.inputs = of.at("inputs").get<std::string>();
  state.notes = of.at("notes").get<std::map<std::string, std::string>>();
  mine.saves.saved_step = of.at("saved_step").get<int64_t>();
  mine.saves.tried_step = of.at("tried_step").get<int64_t>();
  mine.last_step = of.at("last_step").get<int64_t>();
  mine.skipped_steps = of.at("skipped_steps").get<int64_t>();
  mine.roll_backs = of.at("roll_backs").get<int64_t>();
  engine.continue_from(state, "the state in memory", of.at("whole").get<bool>());
  return true;
}

}  // namespace muster::inline v0_1::internal
