#include "muster/distribute/replica_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/auto_shard.h"
#include "muster/distribute/agree.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

namespace {

std::string describe_division(bool by_process) {
  return by_process
             ? "each worker reads separate data (its own files, its own shard(), or everything)"
             : "Muster divides the rows";
}

// Long descriptions differ at their ends too: a digest replaces the part that is cut off.
std::string shortened(const std::string& text) {
  constexpr size_t kShown = 160;
  if (text.size() <= kShown) return text;
  return fmt::format("{}... (crc32c {:08x})", text.substr(0, kShown), crc32c(bytes_of(text)));
}

}  // namespace

ReplicaInput::ReplicaInput(Replica& replica, const Dataset& dataset, bool for_this_process,
                           const data::DistributeOptions& options)
    : ReplicaInput(replica, replica.distribute(dataset, for_this_process, options),
                   for_this_process, data::batch_size_of(dataset)) {}

ReplicaInput::ReplicaInput(Replica& replica, data::DistributedInput input, bool for_this_process,
                           const Result<int64_t>& batch_size)
    : replica_(replica),
      by_process_(input.by_process),
      for_this_process_(for_this_process),
      batch_size_(batch_size.ok() ? std::to_string(batch_size.value()) : "unknown"),
      batches_(std::move(input.iterator)) {}

void ReplicaInput::check_same_data() {
  if (replica_.place().processes == 1) return;
  Settings settings{
      {"the data", by_process_ ? "read by each worker for itself" : "divided in rows by Muster"}};
  if (!for_this_process_) settings.emplace_back("batch_size", batch_size_);
  // Where Muster divides files, each process has a pipeline of its own by now.
  if (!by_process_) {
    settings.emplace_back("the input", shortened(batches_.save().at("pipeline").dump()));
  }
  check_same(replica_, settings);
}

bool ReplicaInput::agree_on_form() {
  check_same_data();
  std::string form = batches_.spec();
  // Only data of one's own can leave a replica without any; else all have zero rows by themselves.
  if (by_process_) {
    for (const std::string& other : replica_.group().gather_text("batch_spec", form)) {
      if (form.empty()) form = other;
    }
  }
  if (form.empty()) return false;
  batches_.set_spec(form);
  return true;
}

int64_t ReplicaInput::remaining_over_all() {
  int64_t most = batches_.remaining();
  if (!by_process_ || replica_.place().processes == 1) return most;
  for (const std::string& text :
       replica_.group().gather_text("batches_left", std::to_string(most))) {
    const int64_t other = std::stoll(text);
    if (other < 0) most = other;
    if (most >= 0) most = std::max(most, other);
  }
  return most;
}

json ReplicaInput::save() {
  json position = batches_.save();
  if (!by_process_) {
    json state = json::object();
    state["dealt_by"] = "muster";
    state["position"] = std::move(position);
    return state;
  }
  // One for each process: its replicas have the same.
  json positions = json::array();
  const std::string mine = replica_.place().local == 0 ? position.dump() : "";
  for (const std::string& text : replica_.group().gather_text("input_position", mine)) {
    if (!text.empty()) positions.push_back(json::parse(text));
  }
  return {{"dealt_by", "input_fn"}, {"positions", std::move(positions)}};
}

void ReplicaInput::restore(const json& state) {
  const bool was_by_process = state.value("dealt_by", "muster") == "input_fn";
  const InputContext context = replica_.input_context();
  if (state.value("dealt_by", "muster") == "workers") {
    throw invalid_argument(
        fmt::format("the checkpoint was written by {} workers on parameter servers, each at its "
                    "own position in the data: the unread examples are unknown",
                    state.at("positions").size()),
        "continue with distribute::parameter_server() on as many workers, the chief among them");
  }
  if (was_by_process != by_process_) {
    throw invalid_argument(
        fmt::format("the checkpoint was written by a run in which {}, and here {}",
                    describe_division(was_by_process), describe_division(by_process_)),
        "divide the data as the run began: the same kind of input function, and the same "
        "AutoShardPolicy on as many workers; or take a new model_dir");
  } else if (!by_process_) {
    batches_.restore(state.at("position"));
  } else if (state.at("positions").size() == static_cast<size_t>(context.num_input_pipelines)) {
    batches_.restore(state.at("positions").at(static_cast<size_t>(context.input_pipeline_id)));
  } else {
    throw invalid_argument(
        fmt::format("the checkpoint holds the positions of {} workers with separate data, but this "
                    "run has {}: the unread examples are unknown",
                    state.at("positions").size(), context.num_input_pipelines),
        "continue on the same number of workers, or start again with rows that Muster divides, "
        "which can continue on any number: an input function without InputContext, and "
        "AutoShardPolicy::kData for data in files");
  }
}

}  // namespace muster::inline v0_1::distribute
