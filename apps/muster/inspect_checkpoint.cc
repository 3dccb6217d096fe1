#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/muster/inspect.h"
#include "apps/muster/inspect_keras.h"
#include "apps/muster/inspect_tensorflow.h"
#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/json.h"
#include "muster/base/outside_name.h"
#include "muster/base/printable.h"
#include "muster/base/small_file.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/files/regular_expression.h"
#include "muster/formats/checkpoint_header.h"
#include "muster/formats/keras_file.h"
#include "muster/formats/safetensors.h"
#include "muster/formats/tensorflow_checkpoint.h"

namespace muster::app {
namespace {

using formats::SafetensorsReader;

constexpr std::string_view kExtension = ".safetensors";
constexpr uint64_t kMostPointer = uint64_t{64} << 20;  // bytes of a file `checkpoint`

// What is known of `path`; nothing if it does not exist. Throws if that cannot be found out.
std::optional<FileInfo> info_of(FileSystem& files, const std::string& path) {
  const Result<FileInfo> info = files.info(path);
  if (info.ok()) return info.value();
  if (info.error().kind() != ErrorKind::kNotFound) throw info.error();
  return std::nullopt;
}

bool is_file(FileSystem& files, const std::string& path) {
  const std::optional<FileInfo> info = info_of(files, path);
  return info && !info->is_directory;
}

// The names in a folder; none where there is no such folder.
std::vector<std::string> names_in(FileSystem& files, const std::string& folder) {
  const Result<std::vector<std::string>> names = files.list_directory(folder);
  if (!names.ok() && names.error().kind() == ErrorKind::kNotFound) return {};
  return names.value();
}

// Returns the shards "<prefix>-0000i-of-0000n.safetensors", in order. There may be none; throws
// Corrupt when there are some and others of the n are missing.
std::vector<std::string> shards_of(FileSystem& files, const std::string& prefix) {
  const std::string folder = directory_of(prefix);
  const std::string base(base_name(prefix));
  static const RegularExpression kShard(R"(-(\d{5})-of-(\d{5})\.safetensors)");
  std::vector<std::string> paths;
  std::size_t expected = 0;
  for (const std::string& name : names_in(files, folder)) {
    RegularExpression::Groups match;
    const std::string rest = name.starts_with(base) ? name.substr(base.size()) : "";
    if (!kShard.full_match(rest, &match)) continue;
    paths.push_back(join_path(folder, name));
    expected = std::max(expected, static_cast<std::size_t>(std::stoul(match[2])));
  }
  if (!paths.empty() && paths.size() != expected) {
    throw corrupt(
        fmt::format("checkpoint {}: {} of {} shards exist", prefix, paths.size(), expected));
  }
  return paths;
}

std::vector<std::string> files_of_prefix(FileSystem& files, const std::string& prefix) {
  if (is_file(files, prefix + std::string(kExtension))) return {prefix + std::string(kExtension)};
  return shards_of(files, prefix);
}

}  // namespace

std::vector<std::string> checkpoint_prefixes(FileSystem& files, const std::string& folder) {
  static const RegularExpression kName(R"((.+?-(\d+))(-\d{5}-of-\d{5})?\.safetensors)");
  std::vector<std::pair<uint64_t, std::string>> found;
  const std::vector<std::string> names = files.list_directory(folder).value();
  for (const std::string& name : names) {
    RegularExpression::Groups match;
    if (is_staging_name(name) || !kName.full_match(name, &match)) continue;
    if (match[2].length() > 18) continue;  // no step
    found.emplace_back(std::stoull(match[2]), match[1]);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> prefixes;
  for (auto& [step, name] : found) prefixes.push_back(std::move(name));
  return prefixes;
}

namespace {

// Returns the prefix that the text of a file `checkpoint` calls the newest; "" when it names none.
std::string newest_named(const std::string& text) {
  static const RegularExpression kNewest("^model_checkpoint_path: *\"([^\"]+)\"");
  RegularExpression::Groups match;
  for (const std::string& line : split(text, '\n')) {
    // A longer one names no file.
    if (line.size() <= PATH_MAX && kNewest.search(line, &match)) return match[1];
  }
  return "";
}

// TensorFlow writes whole paths where a model_dir is one.
std::string inside_of(const std::string& folder, const std::string& name) {
  const std::string below = join_path(folder, "");
  return name.starts_with(below) ? name.substr(below.size()) : name;
}

// Throws when `prefix` is a checkpoint of TensorFlow.
void refuse_tensorflow(FileSystem& files, const std::string& prefix) {
  if (const auto theirs = formats::tensorflow_checkpoint_error(files, prefix)) throw *theirs;
}

bool is_tensorflow(FileSystem& files, const std::string& prefix) {
  return is_file(files, prefix + ".index") && files_of_prefix(files, prefix).empty();
}

// The prefix of TensorFlow's checkpoint that `path` means, as checkpoint_files() finds Muster's;
// nothing where it means none of TensorFlow's.
std::optional<std::string> tensorflow_prefix(FileSystem& files, const std::string& path) {
  const std::optional<FileInfo> info = info_of(files, path);
  if (!info) return is_tensorflow(files, path) ? std::optional(path) : std::nullopt;
  if (!info->is_directory && base_name(path) != "checkpoint")
    return formats::tensorflow_checkpoint_of(path);
  const std::string folder = info->is_directory ? path : directory_of(path);
  const std::string pointer = join_path(folder, "checkpoint");
  if (is_file(files, pointer)) {
    const std::string newest = newest_named(read_small_file(files, pointer, kMostPointer).value());
    if (newest.empty()) return std::nullopt;
    std::string prefix = path_inside(folder, inside_of(folder, newest), pointer).value();
    return is_tensorflow(files, prefix) ? std::optional(std::move(prefix)) : std::nullopt;
  }
  if (!checkpoint_prefixes(files, folder).empty()) return std::nullopt;
  std::optional<std::string> newest;
  for (const std::string& name : names_in(files, folder)) {
    const auto prefix = formats::tensorflow_checkpoint_of(name);
    if (prefix && is_tensorflow(files, join_path(folder, *prefix)))
      newest = join_path(folder, *prefix);
  }
  return newest;
}

// Throws when `folder` holds a checkpoint of TensorFlow.
void refuse_folder_of_tensorflow(FileSystem& files, const std::string& folder) {
  const std::vector<std::string> names = files.list_directory(folder).value();
  for (const std::string& name : names) {
    const auto prefix = formats::tensorflow_checkpoint_of(name);
    if (prefix) refuse_tensorflow(files, join_path(folder, *prefix));
  }
}

}  // namespace

std::vector<std::string> checkpoint_files(FileSystem& files, const std::string& path) {
  const std::optional<FileInfo> info = info_of(files, path);
  if (info && !info->is_directory && base_name(path) != "checkpoint") {
    if (const auto prefix = formats::tensorflow_checkpoint_of(path))
      refuse_tensorflow(files, *prefix);
    return {path};
  }
  if (!info) {
    const std::vector<std::string> paths = files_of_prefix(files, path);
    if (!paths.empty()) return paths;
    refuse_tensorflow(files, path);
    throw not_found(
        fmt::format("there is no checkpoint {}", path),
        "pass a model_dir, a prefix such as model/model.ckpt-100, or a .safetensors file");
  }
  const std::string folder = info->is_directory ? path : directory_of(path);
  const std::vector<std::string> prefixes = checkpoint_prefixes(files, folder);
  const std::string there =
      prefixes.empty() ? "" : fmt::format("there are: {}", fmt::join(prefixes, ", "));
  const std::string pointer = join_path(folder, "checkpoint");
  if (is_file(files, pointer)) {
    const std::string newest = newest_named(read_small_file(files, pointer, kMostPointer).value());
    if (newest.empty()) {
      throw corrupt(fmt::format("{} does not name a checkpoint", pointer),
                    there.empty() ? "" : "pass a checkpoint by its prefix; " + there);
    }
    const std::string prefix = path_inside(folder, inside_of(folder, newest), pointer).value();
    const std::vector<std::string> paths = files_of_prefix(files, prefix);
    if (!paths.empty()) return paths;
    refuse_tensorflow(files, prefix);
    throw corrupt(
        fmt::format("{} names {}, which does not exist", pointer, printable_beginning(newest)),
        there.empty() ? "" : "pass a checkpoint by its prefix; " + there);
  }
  if (prefixes.empty()) {
    refuse_folder_of_tensorflow(files, folder);
    throw not_found(fmt::format("{} contains no checkpoint", folder),
                    "name a model_dir, or the prefix of a checkpoint in it");
  }
  return files_of_prefix(files, join_path(folder, prefixes.back()));
}

namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

// Returns "crc32c:xxxxxxxx".
std::string digest_of(std::string_view bytes) {
  return fmt::format("crc32c:{:08x}", crc32c(bytes_of(bytes)));
}

std::string plain(const nlohmann::json& value) {
  return printable(value.is_string() ? value.get<std::string>() : value.dump());
}

// Returns the value for a line of text; a long one is cut.
std::string brief(const nlohmann::json& value) {
  constexpr size_t kWhole = 64, kKept = 40;
  std::string text = plain(value);
  const size_t bytes = text.size();
  if (bytes <= kWhole) return text;
  size_t kept = kKept;
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xC0) == 0x80) --kept;  // UTF-8
  return fmt::format("{}… ({} bytes; whole with --json)", text.substr(0, kept), with_commas(bytes));
}

// What the files of one checkpoint hold, together.
struct Contents {
  nlohmann::json files = nlohmann::json::array();
  nlohmann::json tensors = nlohmann::json::array();
  nlohmann::json about = nlohmann::json::object();    // what Muster says of the whole
  nlohmann::json foreign = nlohmann::json::object();  // what others wrote in the metadata
  TextTable table{{"name", "dtype", "shape", ">bytes", "digest"}};
  uint64_t total = 0;                  // bytes
  std::vector<std::string> damaged{};  // names of tensors
  std::optional<Error> header{};       // what is wrong with the first header that is damaged
};

// Looks whether the header is the one that Muster wrote. One without a word of Muster's is another
// program's.
void check_header(const std::string& file, const SafetensorsReader& reader, Contents& contents) {
  const formats::SafetensorsMetadata& metadata = reader.metadata();
  if (!metadata.contains(formats::kAboutKey) && !metadata.contains(formats::kHeaderDigestKey))
    return;
  Status whole = formats::check_header(reader, file);
  if (whole.ok()) {
    const auto about =
        parse_json(metadata.at(formats::kAboutKey), file + ": metadata", ErrorKind::kCorrupt)
            .value();
    const nlohmann::json parts = about.is_object() ? about.value("parts", nlohmann::json()) : about;
    whole =
        formats::check_parts_table(reader, parts.is_string() ? parts.get<std::string>() : "", file);
  }
  if (!whole.ok() && !contents.header) contents.header = whole.error();
}

void add_metadata(const std::string& file, const SafetensorsReader& reader, Contents& contents) {
  for (const auto& [key, text] : reader.metadata()) {
    if (key == formats::kSafetensorsParts) continue;  // the tensors tell
    if (key != formats::kAboutKey) {
      contents.foreign[key] = text;
      continue;
    }
    nlohmann::json part = parse_json(text, file + ": metadata", ErrorKind::kCorrupt).value();
    if (!part.is_object()) throw corrupt(file + ": metadata 'muster' is not a JSON object");
    contents.about.merge_patch(part);
  }
}

// Adds the tensors and checks their digests. A tensor without a digest is not damaged.
void add_tensors(const SafetensorsReader& reader, Contents& contents) {
  const nlohmann::json digests = contents.about.value("digests", nlohmann::json::object());
  for (const formats::TensorEntry& entry : reader.tensors()) {
    std::string state = "none";
    if (reader.parts().tensors.contains(entry.name)) {
      // What lies in parts is verified as it is read.
      const Result<std::string> bytes = reader.read(entry.name);
      if (!bytes.ok() && bytes.error().kind() != ErrorKind::kCorrupt) throw bytes.error();
      state = bytes.ok() ? "ok" : "DAMAGED";
    } else if (digests.contains(entry.name)) {
      const nlohmann::json digest = digest_of(reader.read(entry.name).value());
      state = digests[entry.name] == digest ? "ok" : "DAMAGED";
    }
    if (state == "DAMAGED") contents.damaged.push_back(entry.name);
    contents.table.add(
        {entry.name, entry.dtype, shape_text(entry.shape), with_commas(entry.bytes), state});
    contents.tensors.push_back({{"name", entry.name},
                                {"dtype", entry.dtype},
                                {"shape", entry.shape},
                                {"bytes", entry.bytes},
                                {"digest", state == "DAMAGED" ? "damaged" : state}});
    contents.total += entry.bytes;
  }
}

std::string json_text(const std::string& path, const Contents& contents) {
  nlohmann::json document = {{"path", path},
                             {"files", contents.files},
                             {"tensors", contents.tensors},
                             {"total_bytes", contents.total},
                             {"metadata", contents.foreign}};
  document.update(contents.about);
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string plain_text(Contents contents) {
  std::string text;
  for (const auto& file : contents.files) text += plain(file) + "\n";
  for (const char* key : {"global_step", "epoch", "format_version"}) {
    if (!contents.about.contains(key)) continue;
    text += fmt::format("  {}: {}\n", key, plain(contents.about[key]));
    contents.about.erase(key);
  }
  for (const nlohmann::json* rest : {&contents.about, &contents.foreign}) {
    for (const auto& [key, value] : rest->items()) {
      text += fmt::format("  {}: {}\n", printable(key), brief(value));
    }
  }
  return text + "\n" + contents.table.text("  ") +
         fmt::format("\n  {} arrays, {} bytes\n", contents.tensors.size(),
                     with_commas(contents.total));
}

}  // namespace

Inspection inspect_checkpoint(FileSystem& files, const std::string& path, bool json) {
  if (const auto theirs = tensorflow_prefix(files, path))
    return inspect_tensorflow(files, *theirs, json);
  if (formats::is_keras_file(path) && is_file(files, path)) return inspect_keras(files, path, json);
  Contents contents;
  for (const std::string& file : checkpoint_files(files, path)) {
    contents.files.push_back(file);
    const auto reader = SafetensorsReader::open(files, file).value();
    for (const auto& part : reader.parts().files)
      contents.files.push_back(join_path(directory_of(file), part.name));
    check_header(file, reader, contents);
    add_metadata(file, reader, contents);
    add_tensors(reader, contents);
  }
  for (const char* key : {"digests", "parts"}) contents.about.erase(key);
  Inspection inspection;
  constexpr auto kHint =
      "use an older checkpoint of this model_dir; training does so automatically";
  if (!contents.damaged.empty()) {
    inspection.damage = corrupt(fmt::format("{}: {} of {} arrays do not match their digest: {}",
                                            path, contents.damaged.size(), contents.tensors.size(),
                                            fmt::join(contents.damaged, ", ")),
                                kHint);
  } else if (contents.header) {
    inspection.damage = corrupt(contents.header->message(), kHint);
  }
  inspection.text = json ? json_text(path, contents) : plain_text(std::move(contents));
  return inspection;
}

}  // namespace muster::app
