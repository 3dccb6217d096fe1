#include "muster/distribute/input_position.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

namespace {

std::string describe_division(bool by_process) {
  return by_process ? "each worker reads data of its own (files, by hand, or everything)"
                    : "Muster divides the rows";
}

}  // namespace

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
        fmt::format("the checkpoint was written by a run in which {}, and here {}",
                    describe_division(was_by_process), describe_division(by_process)),
        "divide the data as the run began: the same kind of input function, and the same "
        "AutoShardPolicy on as many workers; or take a new model_dir");
  } else if (!by_process) {
    iterator.restore(state.at("position"));
  } else if (state.at("positions").size() == static_cast<size_t>(context.num_input_pipelines)) {
    iterator.restore(state.at("positions").at(static_cast<size_t>(context.input_pipeline_id)));
  } else {
    throw invalid_argument(
        fmt::format("the checkpoint holds the positions of {} workers, each of which read data of "
                    "its own, and this run has {}: which examples are still unread cannot be told",
                    state.at("positions").size(), context.num_input_pipelines),
        "continue on the same number of workers, or begin anew with rows that Muster divides, "
        "which "
        "continue on any number: an input function without InputContext, and "
        "AutoShardPolicy::kData where the data is in files");
  }
}

}  // namespace muster::inline v0_1::distribute
