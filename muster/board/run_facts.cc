#include "muster/board/run_facts.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/board/live_json.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;

constexpr size_t kMostFacts = 200;
constexpr size_t kMostTables = 20;
constexpr uint64_t kMostFactBytes = 4 << 20;  // of a file that is read whole
constexpr std::string_view kCheckpoint = "model.ckpt-";

// The whole text of a small file; nothing without one.
std::optional<std::string> small_text(FileSystem& files, const std::string& path) {
  const Result<uint64_t> size = files.file_size(path);
  if (!size.ok() || size.value() > kMostFactBytes) return std::nullopt;
  Result<std::string> text = files.read_file(path);
  return text.ok() ? std::optional(std::move(text).value()) : std::nullopt;
}

// What the evaluation of a checkpoint measured that RunConfig.keep_best keeps, by its step.
std::map<int64_t, double> best_of(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, "best_checkpoints.json");
  const auto text = small_text(files, path);
  if (!text) return {};
  const Result<json> parsed = parse_json(*text, path, ErrorKind::kCorrupt);
  std::map<int64_t, double> best;
  if (!parsed.ok() || !parsed.value().is_object()) return best;
  for (const json& one : parsed.value().value("best", json::array())) {
    if (one.is_object() && one.contains("global_step") && one["global_step"].is_number_integer() &&
        one.contains("value") && one["value"].is_number())
      best[one["global_step"].get<int64_t>()] = one["value"].get<double>();
  }
  return best;
}

json checkpoints_of(FileSystem& files, const std::string& directory,
                    const std::vector<DirectoryEntry>& entries) {
  struct Found {
    uint64_t bytes = 0;
    double saved = 0;
  };
  std::map<int64_t, Found> found;
  for (const DirectoryEntry& entry : entries) {
    if (entry.info.is_directory || !entry.name.starts_with(kCheckpoint)) continue;
    const std::string rest = entry.name.substr(kCheckpoint.size());
    const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const auto step = parse_int(rest.substr(0, digits));
    if (!step) continue;
    Found& checkpoint = found[*step];
    checkpoint.bytes += entry.info.size;
    checkpoint.saved = std::max(checkpoint.saved, entry.info.modified_seconds);
  }
  const std::map<int64_t, double> best = best_of(files, directory);
  // The file `checkpoint` names the newest one in quotes.
  const std::string named = small_text(files, join_path(directory, "checkpoint")).value_or("");
  json all = json::array();
  for (auto each = found.rbegin(); each != found.rend() && all.size() < kMostFacts; ++each) {
    const std::string name = std::string(kCheckpoint) + std::to_string(each->first);
    all.push_back({{"name", name},
                   {"step", each->first},
                   {"bytes", each->second.bytes},
                   {"saved", each->second.saved},
                   {"newest", named.starts_with("model_checkpoint_path: \"" + name + "\"")}});
    const auto kept = best.find(each->first);
    if (kept != best.end()) all.back()["best"] = kept->second;
  }
  return all;
}

json exports_of(FileSystem& files, const std::string& directory) {
  json all = json::array();
  const std::string root = join_path(directory, "export");
  const auto versions_in = [&files](const std::string& path) {
    std::vector<int64_t> versions;
    for (const DirectoryEntry& entry : files.list_entries(path).value_or({})) {
      const auto number = parse_int(entry.name);
      if (entry.info.is_directory && number) versions.push_back(*number);
    }
    std::ranges::sort(versions);
    return versions;
  };
  const auto add = [&](const std::string& name, const std::string& path) {
    const std::vector<int64_t> versions = versions_in(path);
    if (versions.empty() || all.size() == kMostFacts) return;
    const std::string newest = join_path(path, std::to_string(versions.back()));
    json commands = json::array();
    if (files.exists(join_path(newest, "signatures.json")).value_or(false)) {
      commands.push_back("muster serve " + shell_word(path));
      commands.push_back("muster inspect export " + shell_word(newest));
    }
    all.push_back({{"name", name},
                   {"path", path},
                   {"versions", versions.size()},
                   {"newest", newest},
                   {"commands", commands}});
  };
  add("export", root);
  for (const DirectoryEntry& entry : files.list_entries(root).value_or({})) {
    if (entry.info.is_directory && !parse_int(entry.name))
      add(entry.name, join_path(root, entry.name));
  }
  return all;
}

json end_of(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, "run_end.json");
  const auto text = small_text(files, path);
  if (!text) return nullptr;
  Result<json> end = parse_json(*text, path, ErrorKind::kCorrupt);
  return end.ok() && end.value().is_object() ? std::move(end).value() : json();
}

json evaluations_of(FileSystem& files, const std::string& directory) {
  json all = json::array();
  const std::string path = join_path(directory, "evaluations.jsonl");
  const auto text = small_text(files, path);
  if (!text) return all;
  for (const std::string& line : split(*text, '\n')) {
    Result<json> entry = parse_json(line, path, ErrorKind::kCorrupt);
    if (entry.ok() && entry.value().is_object()) all.push_back(std::move(entry).value());
  }
  while (all.size() > kMostFacts) all.erase(all.begin());
  return all;
}

// What `muster train` says of its model, and its tables.
json report_of(FileSystem& files, const std::string& folder) {
  const auto text = small_text(files, join_path(folder, "report.md"));
  if (!text) return nullptr;
  json tables = json::object();
  for (const DirectoryEntry& entry : files.list_entries(folder).value_or({})) {
    if (!entry.name.ends_with(".csv") || tables.size() == kMostTables) continue;
    const auto table = small_text(files, join_path(folder, entry.name));
    if (table) tables[entry.name.substr(0, entry.name.size() - 4)] = *table;
  }
  return {{"text", *text}, {"tables", tables}};
}

}  // namespace

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:=,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

json run_facts(FileSystem& files, const std::string& directory) {
  const std::vector<DirectoryEntry> entries = files.list_entries(directory).value_or({});
  json checkpoints = checkpoints_of(files, directory, entries);
  json facts = {{"directory", directory},
                {"exports", exports_of(files, directory)},
                {"end", end_of(files, directory)},
                {"evaluations", evaluations_of(files, directory)},
                {"commands", json::array()}};
  facts["commands"].push_back("muster inspect events " + shell_word(directory));
  if (!checkpoints.empty())
    facts["commands"].push_back("muster inspect checkpoint " + shell_word(directory));
  facts["checkpoints"] = std::move(checkpoints);
  facts["starts"] = starts_json(files, directory);
  facts["report"] = report_of(files, join_path(directory, "report"));
  return facts;
}

}  // namespace muster::inline v0_1::board
