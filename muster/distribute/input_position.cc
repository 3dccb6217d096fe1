#include "muster/distribute/input_position.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

json save_position(Session& session, const json& position, bool by_process) {
  if (!by_process) return {{"dealt_by", "muster"}, {"position", position}};
  // One for each process: its replicas have the same.
  json positions = json::array();
  const std::string mine = session.local_replica() == 0 ? position.dump() : "";
  for (const std::string& text : session.gather_text("input_position", mine)) {
    if (!text.empty()) positions.push_back(json::parse(text));
  }
  return {{"dealt_by", "input_fn"}, {"positions", std::move(positions)}};
}

void restore_position(const Session& session, Iterator& iterator, const json& state,
                      bool by_process) {
  const bool was_by_process = state.value("dealt_by", "muster") == "input_fn";
  const InputContext context = session.input_context();
  if (was_by_process != by_process) {
    throw invalid_argument(
        fmt::format("the checkpoint was written with an input function that {}, this one {}",
                    was_by_process ? "shards itself" : "Muster sharded",
                    by_process ? "shards itself" : "is sharded by Muster"),
        "use the kind of input function the run was started with, or a new model_dir");
  } else if (!by_process) {
    iterator.restore(state.at("position"));
  } else if (state.at("positions").size() == static_cast<size_t>(context.num_input_pipelines)) {
    iterator.restore(state.at("positions").at(static_cast<size_t>(context.input_pipeline_id)));
  } else {
    throw invalid_argument(
        fmt::format("the checkpoint holds the positions of {} input pipelines that shard "
                    "themselves, and this run has {} workers: which examples are still unread "
                    "cannot be told",
                    state.at("positions").size(), context.num_input_pipelines),
        "continue on the same number of workers, or let Muster shard: an input function without "
        "InputContext continues on any number");
  }
}

}  // namespace muster::inline v0_1::distribute
