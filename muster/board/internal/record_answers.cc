#include "muster/board/internal/record_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/board/plugin_values.h"

namespace muster::inline v0_1::board::internal {
namespace {

using formats::SummaryValue;
using nlohmann::json;

constexpr size_t kMostTextBytes = 100'000;
constexpr size_t kMostTexts = 10'000;
constexpr size_t kMostNodes = 20'000;

std::vector<RecordPlace> places_of(const RunData& run, const std::string& tag) {
  const auto found = run.tags().find(std::string_view(tag));
  if (found == run.tags().end() || found->second.kind == TagKind::kScalar)
    throw not_found(fmt::format("the run has no records of the tag '{}'", tag));
  return found->second.records.places();
}

// The value of a tag in an event; nullptr where it is not there any more.
const SummaryValue* value_in(const formats::Event& event, const std::string& tag) {
  const auto found = std::ranges::find(event.values, tag, &SummaryValue::tag);
  return found == event.values.end() ? nullptr : &*found;
}

// Calls `describe` for records of the tag, and gathers what it returns.
json each_record(const RunData& run, const std::string& tag, size_t most,
                 const std::function<json(const SummaryValue&)>& describe) {
  const std::vector<RecordPlace> places = places_of(run, tag);
  json all = json::array();
  const size_t count = std::min(places.size(), std::max<size_t>(most, 1));
  for (size_t number = 0; number < count; ++number) {
    // From the last one backwards in equal strides.
    const size_t at = places.size() - 1 - (count - 1 - number) * places.size() / count;
    try {
      const formats::Event event = run.event_at(places[at]);
      const SummaryValue* value = value_in(event, tag);
      json described = value == nullptr ? json() : describe(*value);
      if (!described.is_object()) continue;
      described["step"] = places[at].step;
      described["wall"] = places[at].wall;
      all.push_back(std::move(described));
    } catch (const Error&) {
      // The file has changed or is gone: what is still there is shown.
    }
  }
  return all;
}

struct Magic {
  std::string_view begins;
  const char* type;
};
// What browsers show and play; another type would be a page or a script.
constexpr std::array kTypes = {Magic{"\x89PNG\r\n\x1a\n", "image/png"},
                               Magic{"\xff\xd8\xff", "image/jpeg"},
                               Magic{"GIF8", "image/gif"},
                               Magic{"BM", "image/bmp"},
                               Magic{"ID3", "audio/mpeg"},
                               Magic{"OggS", "audio/ogg"},
                               Magic{"fLaC", "audio/flac"}};

std::string type_of(std::string_view bytes) {
  if (bytes.starts_with("RIFF") && bytes.size() >= 12) {
    if (bytes.substr(8, 4) == "WAVE") return "audio/wav";
    if (bytes.substr(8, 4) == "WEBP") return "image/webp";
  }
  for (const auto& [begins, type] : kTypes) {
    if (bytes.starts_with(begins)) return type;
  }
  return "application/octet-stream";
}

json hparam_json(const formats::HParam& value) {
  return std::visit([](const auto& held) { return json(held); }, value);
}

}  // namespace

json places_json(const RunData& run, const std::string& tag) {
  json all = json::array();
  for (const RecordPlace& place : places_of(run, tag))
    all.push_back({{"step", place.step}, {"wall", place.wall}});
  return all;
}

json histograms_json(const RunData& run, const std::string& tag, size_t most) {
  return each_record(run, tag, most, [](const SummaryValue& value) -> json {
    const auto histogram = histogram_of(value);
    if (!histogram) return nullptr;
    // Runs of empty buckets, of which TensorFlow 1 writes hundreds, say nothing.
    std::vector<double> limits, counts;
    for (size_t at = 0; at < histogram->counts.size(); ++at) {
      const bool next = at + 1 < histogram->counts.size() && histogram->counts[at + 1] != 0;
      if (histogram->counts[at] == 0 && !next) continue;
      limits.push_back(histogram->limits[at]);
      counts.push_back(histogram->counts[at]);
    }
    return {{"min", histogram->min},
            {"max", histogram->max},
            {"count", histogram->count},
            {"sum", histogram->sum},
            {"limits", limits},
            {"counts", counts},
            {"squares", histogram->sum_squares}};
  });
}

json texts_json(const RunData& run, const std::string& tag, size_t most) {
  return each_record(run, tag, most, [](const SummaryValue& value) -> json {
    auto texts = texts_of(value);
    if (!texts) return nullptr;
    json shown = json::array();
    for (const std::string& text : texts->texts) {
      if (shown.size() == kMostTexts) break;
      shown.push_back(text.substr(0, kMostTextBytes));
    }
    return {{"texts", shown}, {"shape", texts->shape}, {"count", texts->texts.size()}};
  });
}

json curves_json(const RunData& run, const std::string& tag, size_t most) {
  return each_record(run, tag, most, [](const SummaryValue& value) -> json {
    const auto curve = curve_of(value);
    if (!curve) return nullptr;
    return {{"precision", curve->precision},
            {"recall", curve->recall},
            {"true_positives", curve->true_positives},
            {"false_positives", curve->false_positives}};
  });
}

serve::HttpAnswer blob_answer(const RunData& run, const std::string& tag, size_t record,
                              size_t number) {
  const std::vector<RecordPlace> places = places_of(run, tag);
  if (record >= places.size()) throw not_found(fmt::format("there is no record {}", record));
  const formats::Event event = run.event_at(places[record]);
  const SummaryValue* value = value_in(event, tag);
  std::vector<std::string> blobs;
  if (value != nullptr) {
    blobs = images_of(*value);
    if (blobs.empty()) blobs = sounds_of(*value);
  }
  if (number >= blobs.size())
    throw not_found(fmt::format("the record has {} images or sounds", blobs.size()));
  serve::HttpAnswer answer{200, std::move(blobs[number]), "", {}};
  answer.type = type_of(answer.body);
  return answer;
}

json graph_json(const RunData& run) {
  if (!run.graph()) return nullptr;
  const formats::Event event = run.event_at(*run.graph());
  if (!event.graph) return nullptr;
  json nodes = json::array();
  for (const formats::NodeDef& node : event.graph->nodes) {
    if (nodes.size() == kMostNodes) break;
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"inputs", node.inputs},
                     {"shapes", node.output_shapes},
                     {"parameters", node.parameters}});
  }
  return {{"nodes", nodes}, {"count", event.graph->nodes.size()}};
}

json session_json(const RunData& run) {
  if (!run.hparams()) return nullptr;
  json session;
  const auto each_value = [&run](const RecordPlace& place, const auto& take) {
    const formats::Event event = run.event_at(place);
    for (const SummaryValue& value : event.values) take(value);
  };
  each_value(*run.hparams(), [&session](const SummaryValue& value) {
    const auto start = session_start_of(value);
    if (!start) return;
    json hparams = json::object();
    for (const auto& [name, given] : start->hparams) hparams[name] = hparam_json(given);
    session["hparams"] = std::move(hparams);
    session["started"] = start->started;
  });
  if (run.hparams_end()) {
    each_value(*run.hparams_end(), [&session](const SummaryValue& value) {
      const auto end = session_end_of(value);
      if (!end) return;
      session["result"] = end->result == formats::SessionResult::kSuccess   ? "success"
                          : end->result == formats::SessionResult::kFailure ? "failure"
                                                                            : "running";
      session["ended"] = end->ended;
    });
  }
  return session;
}

}  // namespace muster::inline v0_1::board::internal
