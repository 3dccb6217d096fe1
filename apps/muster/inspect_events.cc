#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <variant>

#include "apps/muster/inspect.h"
#include "muster/base/text_table.h"
#include "muster/base/uri.h"
#include "muster/formats/event.h"

namespace muster::app {
namespace {

using Value = decltype(formats::SummaryValue::value);

// No model_dir is deeper; links that lead back must not be followed for ever.
constexpr int kDeepest = 16;

struct Point {
  int64_t step = 0;
  double wall_time = 0;
  Value value{};
};

struct Folder {
  std::vector<std::string> files{};
  std::optional<formats::GraphDef> graph{};  // the last one
  std::map<std::string, std::vector<Point>> tags{};
  // For a store: the steps and times of tags. A run that was killed while it joined its files
  // leaves some events twice.
  std::set<std::tuple<std::string, int64_t, double>> seen;
};

void find_event_files(FileSystem& files, const std::string& folder, int depth,
                      std::map<std::string, Folder>& found) {
  std::vector<std::string> here = formats::list_event_files(files, folder).value();
  if (!here.empty()) found[folder].files = std::move(here);
  if (depth == kDeepest) return;
  const std::vector<DirectoryEntry> entries = files.list_entries(folder).value();
  for (const auto& [name, info] : entries) {
    if (info.is_directory) find_event_files(files, join_path(folder, name), depth + 1, found);
  }
}

std::string_view kind_of(const Value& value) {
  constexpr std::string_view kNames[] = {"other", "scalar", "histogram", "text",
                                         "image", "audio",  "tensor"};
  const auto* tensor = std::get_if<formats::TensorSummary>(&value);
  return tensor != nullptr && !tensor->plugin.empty() ? std::string_view(tensor->plugin)
                                                      : kNames[value.index()];
}

std::string value_text(const Value& value) {
  if (const auto* scalar = std::get_if<float>(&value)) return fmt::format("{:.6g}", *scalar);
  if (const auto* histogram = std::get_if<formats::Histogram>(&value)) {
    return fmt::format("{:g} values, mean {:.4g}", histogram->count,
                       histogram->count > 0 ? histogram->sum / histogram->count : 0.0);
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return text->size() <= 60 ? *text : text->substr(0, 57) + "...";
  }
  if (const auto* image = std::get_if<formats::ImageSummary>(&value)) {
    return fmt::format("{} x {}, {} channel{}", image->height, image->width, image->channels,
                       image->channels == 1 ? "" : "s");
  }
  if (const auto* audio = std::get_if<formats::AudioSummary>(&value)) {
    return fmt::format("{:.3g} s, {} channel{} at {:g} Hz",
                       static_cast<double>(audio->frames) / audio->sample_rate, audio->channels,
                       audio->channels == 1 ? "" : "s", audio->sample_rate);
  }
  const auto* tensor = std::get_if<formats::TensorSummary>(&value);
  // The data for HParams is in the plugin's data; the tensor is empty.
  if (tensor != nullptr && tensor->plugin != "hparams")
    return fmt::format("{}[{}]", formats::to_string(tensor->type), fmt::join(tensor->shape, ", "));
  return "";
}

nlohmann::json value_json(const Value& value) {
  if (const auto* scalar = std::get_if<float>(&value)) {
    // JSON has no NaN and no infinity, and null would hide which of them it was.
    if (!std::isfinite(*scalar)) return fmt::format("{}", *scalar);
    return *scalar;
  }
  if (const auto* histogram = std::get_if<formats::Histogram>(&value)) {
    return {{"min", histogram->min},
            {"max", histogram->max},
            {"count", histogram->count},
            {"sum", histogram->sum},
            {"sum_squares", histogram->sum_squares},
            {"limits", histogram->limits},
            {"counts", histogram->counts}};
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  // The bytes of these are for other programs: only their form is shown.
  if (const auto* image = std::get_if<formats::ImageSummary>(&value)) {
    return {{"height", image->height},
            {"width", image->width},
            {"channels", image->channels},
            {"bytes", image->encoded.size()}};
  }
  if (const auto* audio = std::get_if<formats::AudioSummary>(&value)) {
    return {{"sample_rate", audio->sample_rate},
            {"channels", audio->channels},
            {"frames", audio->frames},
            {"bytes", audio->encoded.size()}};
  }
  if (const auto* tensor = std::get_if<formats::TensorSummary>(&value)) {
    return {{"plugin", tensor->plugin},
            {"dtype", formats::to_string(tensor->type)},
            {"shape", tensor->shape},
            {"strings", tensor->plugin == "text" ? tensor->strings : std::vector<std::string>()}};
  }
  return nullptr;
}

std::string time_text(double wall_time) {
  const auto seconds = static_cast<std::time_t>(wall_time);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(seconds));
}

// Returns the least and the greatest finite scalar; nothing when there is none.
std::optional<std::pair<float, float>> range_of(const std::vector<Point>& points) {
  std::optional<std::pair<float, float>> range;
  for (const Point& point : points) {
    const auto* scalar = std::get_if<float>(&point.value);
    if (scalar == nullptr || !std::isfinite(*scalar)) continue;
    if (!range) range.emplace(*scalar, *scalar);
    range->first = std::min(range->first, *scalar);
    range->second = std::max(range->second, *scalar);
  }
  return range;
}

nlohmann::json tag_json(const std::string& tag, const std::vector<Point>& points, bool all) {
  nlohmann::json result = {{"tag", tag},
                           {"kind", kind_of(points.back().value)},
                           {"count", points.size()},
                           {"first_step", points.front().step},
                           {"last_step", points.back().step},
                           {"last", value_json(points.back().value)}};
  if (const auto range = range_of(points)) {
    result["min"] = range->first;
    result["max"] = range->second;
  }
  if (!all) return result;
  for (const Point& point : points) {
    result["points"].push_back(
        {{"step", point.step}, {"wall_time", point.wall_time}, {"value", value_json(point.value)}});
  }
  return result;
}

std::string tags_text(const Folder& folder) {
  TextTable table({"tag", "kind", ">points", ">first step", ">last step", ">last", ">min", ">max"});
  for (const auto& [tag, points] : folder.tags) {
    const auto range = range_of(points);
    table.add({tag, std::string(kind_of(points.back().value)), std::to_string(points.size()),
               std::to_string(points.front().step), std::to_string(points.back().step),
               value_text(points.back().value), range ? fmt::format("{:.6g}", range->first) : "",
               range ? fmt::format("{:.6g}", range->second) : ""});
  }
  return table.text("  ");
}

std::string points_text(const std::vector<Point>& points) {
  TextTable table({">step", "time", ">value"});
  for (const Point& point : points) {
    table.add({std::to_string(point.step), time_text(point.wall_time), value_text(point.value)});
  }
  return table.text("  ");
}

// Returns the folders with event files at `path` or below it; their tags are still empty.
std::map<std::string, Folder> find_folders(FileSystem& files, const std::string& path) {
  if (!files.exists(path).value()) {
    throw not_found(fmt::format("there is no {}", path),
                    "pass a model_dir, its eval folder, or an event file");
  }
  const FileInfo info = files.info(path).value();
  std::map<std::string, Folder> folders;
  if (!info.is_directory) {
    folders[path].files.push_back(path);
    return folders;
  }
  find_event_files(files, path, 0, folders);
  if (folders.empty()) {
    throw not_found(fmt::format("no event file in {} or below", path),
                    "event files have \".tfevents.\" in their names");
  }
  return folders;
}

// The contents of the files apart from their points.
struct Remarks {
  std::vector<std::string> damages;
  std::vector<std::string> notes;
  std::set<std::string> all_tags;
  bool joined = false;  // a file went into another meanwhile: the list is old
};

// Reads the points of `tag`, or of all tags, into the folders.
Remarks read_points(FileSystem& files, const std::optional<std::string>& tag,
                    std::map<std::string, Folder>& folders) {
  Remarks remarks;
  for (auto& [name, folder] : folders) {
    for (const std::string& file : folder.files) {
      Result<formats::EventFile> read = formats::read_events(files, file);
      if (!read.ok() && is_remote(file) && read.error().kind() == ErrorKind::kNotFound) {
        remarks.joined = true;
        return remarks;
      }
      formats::EventFile content = std::move(read).value();
      for (formats::Event& event : content.events) {
        if (event.graph) folder.graph = std::move(event.graph);
        for (formats::SummaryValue& value : event.values) {
          remarks.all_tags.insert(value.tag);
          if (tag && value.tag != *tag) continue;
          if (is_remote(file) &&
              !folder.seen.emplace(value.tag, event.step, event.wall_time).second)
            continue;
          folder.tags[value.tag].push_back({event.step, event.wall_time, std::move(value.value)});
        }
      }
      if (content.corruption) remarks.damages.push_back(content.corruption->message());
      if (content.partial_tail)
        remarks.notes.push_back(file + " ends inside a record: still being written?");
    }
  }
  return remarks;
}

std::string shape_text(const formats::NodeDef& node) {
  return node.output_shapes.empty() ? ""
                                    : fmt::format("[{}]", fmt::join(node.output_shapes[0], ", "));
}

// The nodes of the graph of the model, as TensorBoard names them.
std::string graph_text(const Folder& folder) {
  if (!folder.graph) return "";
  TextTable table({"node of the graph", "op", "output", ">weights", "inputs"});
  for (const formats::NodeDef& node : folder.graph->nodes) {
    table.add({node.name, node.op, shape_text(node), std::to_string(node.parameters),
               fmt::format("{}", fmt::join(node.inputs, ", "))});
  }
  return "\n" + table.text("  ");
}

nlohmann::json graph_json(const formats::GraphDef& graph) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const formats::NodeDef& node : graph.nodes) {
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"inputs", node.inputs},
                     {"output_shapes", node.output_shapes},
                     {"parameters", node.parameters}});
  }
  return nodes;
}

std::string folder_text(const std::string& name, const Folder& folder,
                        const std::optional<std::string>& tag) {
  if (folder.tags.empty()) return name + "\n  no values yet\n";
  if (tag) return name + "\n" + points_text(folder.tags.at(*tag));
  return name + "\n" + tags_text(folder) + graph_text(folder);
}

nlohmann::json folder_json(const std::string& name, const Folder& folder, bool all) {
  nlohmann::json tags = nlohmann::json::array();
  for (const auto& [tag, points] : folder.tags) tags.push_back(tag_json(tag, points, all));
  nlohmann::json result = {{"folder", name}, {"files", folder.files}, {"tags", tags}};
  if (folder.graph) result["graph"] = graph_json(*folder.graph);
  return result;
}

}  // namespace

Inspection inspect_events(FileSystem& files, const std::string& path,
                          const std::optional<std::string>& tag, bool json) {
  std::map<std::string, Folder> folders = find_folders(files, path);
  Remarks remarks = read_points(files, tag, folders);
  constexpr int kMostLists = 4;
  for (int list = 1; remarks.joined; ++list) {
    if (list == kMostLists) {
      throw Error(ErrorKind::kUnavailable,
                  fmt::format("event files in {} disappear while they are read", path),
                  "try again; if the error remains, another program removes them");
    }
    folders = find_folders(files, path);
    remarks = read_points(files, tag, folders);
  }
  Inspection inspection;
  if (!remarks.damages.empty()) {
    inspection.damage = corrupt(fmt::format("{}", fmt::join(remarks.damages, "; ")),
                                "the content before the damage is shown");
  }
  if (tag && !remarks.all_tags.contains(*tag) && remarks.damages.empty()) {
    throw not_found(fmt::format("no tag '{}' in {}", *tag, path),
                    fmt::format("there are: {}", fmt::join(remarks.all_tags, ", ")));
  }
  nlohmann::json document = {{"path", path},
                             {"folders", nlohmann::json::array()},
                             {"notes", remarks.notes},
                             {"damage", remarks.damages}};
  for (const auto& [name, folder] : folders) {
    if (tag && folder.tags.empty()) continue;
    document["folders"].push_back(folder_json(name, folder, tag.has_value()));
    inspection.text += inspection.text.empty() ? "" : "\n";
    inspection.text += folder_text(name, folder, tag);
  }
  for (const std::string& note : remarks.notes) inspection.text += "note: " + note + "\n";
  if (json)
    inspection.text = document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return inspection;
}

}  // namespace muster::app
