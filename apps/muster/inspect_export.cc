#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/muster/inspect.h"
#include "muster/base/json.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/formats/file_digests.h"

namespace muster::app {
namespace {

using nlohmann::json;

// Written last, so a version exists once this file does.
constexpr const char* kDescription = "signatures.json";

// The version's folder that `path` means: itself, or the newest in it.
std::string version_folder(FileSystem& files, const std::string& path) {
  if (files.exists(join_path(path, kDescription)).value()) return path;
  const Result<std::vector<std::string>> names = files.list_directory(path);
  std::optional<int64_t> newest;
  for (const std::string& name : names.value_or({})) {
    const auto number = parse_int(name);
    if (!number || *number < 0 || std::to_string(*number) != name) continue;
    if (newest && *number < *newest) continue;
    if (files.exists(join_path(join_path(path, name), kDescription)).value()) newest = *number;
  }
  if (newest) return join_path(path, std::to_string(*newest));
  throw not_found(fmt::format("there is no exported model in {}", path),
                  "name a folder that Estimator::export_model() made, or its parent folder");
}

// "float32[-1, 2]", from the description of an input or output.
std::string form_of(const json& info) {
  std::vector<std::string> axes;
  for (const json& axis : info.at("shape")) axes.push_back(std::to_string(axis.get<int64_t>()));
  return fmt::format("{}[{}]", info.at("dtype").get<std::string>(), join(axes, ", "));
}

std::string forms_of(const json& tensors) {
  std::vector<std::string> forms;
  for (const auto& [name, info] : tensors.items()) forms.push_back(name + " " + form_of(info));
  return printable(join(forms, ", "));
}

// Information about the files of a version, in the order of their names.
struct ExportFiles {
  json all = json::array();
  TextTable table{{"file", ">bytes", "digest"}};
  std::vector<std::string> damaged;

  void add(const std::string& name, uint64_t bytes, const std::string& state) {
    all.push_back({{"name", name}, {"bytes", bytes}, {"digest", state}});
    table.add({printable(name), with_commas(bytes), state});
  }
};

// For an older export, the existing files.
void add_unsealed(FileSystem& files, const std::string& folder, ExportFiles& found) {
  for (const DirectoryEntry& entry : files.list_entries(folder).value())
    if (!entry.info.is_directory) found.add(entry.name, entry.info.size, "none");
}

void add_sealed(FileSystem& files, const std::string& folder, const formats::FileDigests& digests,
                ExportFiles& found) {
  for (const auto& [name, digest] : digests) {
    const Status checked = formats::check_digest(files, join_path(folder, name), digest);
    if (!checked.ok()) {
      if (checked.error().kind() != ErrorKind::kCorrupt) throw checked.error();
      found.damaged.push_back(name);
    }
    found.add(name, digest.bytes, checked.ok() ? "ok" : "DAMAGED");
  }
  found.add(kDescription, files.file_size(join_path(folder, kDescription)).value(), "ok");
}

// "steps axis 1 and mask axis 1: 3 to 30", from the lengths that a model takes on axes of -1.
std::string lengths_of(const json& range) {
  std::vector<std::string> axes;
  for (const json& axis : range.at("axes")) {
    axes.push_back(
        fmt::format("{} axis {}", axis.at(0).get<std::string>(), axis.at(1).get<int64_t>()));
  }
  const auto least = range.at("least").get<int64_t>();
  return fmt::format("{}: {}", printable(join(axes, " and ")),
                     range.contains("most")
                         ? fmt::format("{} to {}", least, range.at("most").get<int64_t>())
                         : fmt::format("{} or more", least));
}

std::string shown_text(const std::string& folder, const json& about, const ExportFiles& found) {
  std::string text = folder + "\n";
  for (const char* key : {"global_step", "checkpoint"}) {
    if (!about.contains(key)) continue;
    const json& value = about[key];
    text += fmt::format("  {}: {}\n", key,
                        value.is_string() ? printable(value.get<std::string>()) : value.dump());
  }
  TextTable signatures{{"signature", "method", "inputs", "outputs"}};
  for (const auto& [name, signature] : about.at("signatures").items()) {
    signatures.add({printable(name), printable(signature.at("method").get<std::string>()),
                    forms_of(signature.at("inputs")), forms_of(signature.at("outputs"))});
  }
  text += "\n" + found.table.text("  ") + "\n" + signatures.text("  ");
  if (!about.contains("lengths")) return text;
  text += "\n  lengths of axes:\n";
  for (const json& range : about.at("lengths")) text += "    " + lengths_of(range) + "\n";
  return text;
}

}  // namespace

Inspection inspect_export(FileSystem& files, const std::string& path, bool as_json) {
  const std::string folder = version_folder(files, path);
  const std::string description = join_path(folder, kDescription);
  const std::string text = files.read_file(description).value();
  const json about = parse_json(text, description, ErrorKind::kCorrupt).value();
  const auto digests = formats::sealed_digests(text, about, description).value();
  ExportFiles found;
  if (digests) {
    add_sealed(files, folder, *digests, found);
  } else {
    add_unsealed(files, folder, found);
  }
  Inspection inspection;
  if (!found.damaged.empty()) {
    inspection.damage = corrupt(
        fmt::format("{}: {} of {} files do not match their digest: {}", folder,
                    found.damaged.size(), found.all.size(), printable(join(found.damaged, ", "))),
        "copy the folder again, or export the model again");
  }
  try {
    if (as_json) {
      json document = about;
      document.erase("seal");
      document["path"] = folder;
      document["files"] = found.all;
      inspection.text = document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    } else {
      inspection.text = shown_text(folder, about, found);
    }
  } catch (const json::exception& error) {
    throw corrupt(fmt::format("{} is not a valid description of an exported model: {}", description,
                              error.what()));
  }
  return inspection;
}

}  // namespace muster::app
