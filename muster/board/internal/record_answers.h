// The parts of the API that read records again: histograms, texts, curves, images, sounds, graphs.
// Each takes the run's data, which the caller has locked. Thread safety: one thread for a run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/board/run_data.h"
#include "muster/serve/http.h"

namespace muster::inline v0_1::board::internal {

// The places of a tag's records: [{"step", "wall"}]. Throws NotFound for a tag that the run does
// not have, or has as a scalar.
nlohmann::json places_json(const RunData& run, const std::string& tag);
// At most `most` of the tag's records, spread evenly, the last among them, as {"step", "wall",
// ...}. A record that cannot be read any more is left out. They throw as places_json() does.
nlohmann::json histograms_json(const RunData& run, const std::string& tag, size_t most);
nlohmann::json texts_json(const RunData& run, const std::string& tag, size_t most);
nlohmann::json curves_json(const RunData& run, const std::string& tag, size_t most);
// The bytes of an image or a sound: the record of that number in places_json(), and the value of
// that number in it. Throws NotFound.
serve::HttpAnswer blob_answer(const RunData& run, const std::string& tag, size_t record,
                              size_t number);
// The nodes of the graph: [{"name", "op", "inputs", "shapes", "parameters"}], at most 20,000, and
// null without a graph.
nlohmann::json graph_json(const RunData& run);
// {"hparams": {...}, "started", "result", "ended"}, and null for a run without hyperparameters.
nlohmann::json session_json(const RunData& run);

}  // namespace muster::inline v0_1::board::internal
