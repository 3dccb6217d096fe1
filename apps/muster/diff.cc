#include "apps/muster/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "apps/muster/audit.h"
#include "apps/muster/inspect.h"
#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/formats/checkpoint_header.h"
#include "muster/formats/event.h"
#include "muster/formats/file_digests.h"
#include "muster/formats/safetensors.h"

namespace muster::app {
namespace {

using formats::SafetensorsReader;
using formats::TensorEntry;

constexpr size_t kMostShown = 12;  // variables

// What Muster says of a checkpoint in the header of its file; an empty object for a file of another
// program. Throws Corrupt.
nlohmann::json about_of(const SafetensorsReader& reader, const std::string& file) {
  const formats::SafetensorsMetadata& metadata = reader.metadata();
  if (!metadata.contains(formats::kAboutKey)) return nlohmann::json::object();
  formats::check_header(reader, file).value();
  return parse_json(metadata.at(formats::kAboutKey), file + ": metadata", ErrorKind::kCorrupt)
      .value();
}

// The tensors of a checkpoint, over all of its files.
class Tensors {
 public:
  Tensors(FileSystem& files, const std::string& path) : file_(path) {
    for (const std::string& file : checkpoint_files(files, path)) {
      readers_.push_back(SafetensorsReader::open(files, file).value());
      about_.merge_patch(about_of(readers_.back(), file));
    }
    for (const SafetensorsReader& reader : readers_) {
      for (const TensorEntry& entry : reader.tensors()) found_[entry.name] = {&reader, &entry};
    }
  }
  // Nothing for a checkpoint of another program.
  std::optional<int64_t> step() const {
    const auto it = about_.find("global_step");
    return it == about_.end() ? std::nullopt : std::optional(it->get<int64_t>());
  }
  // The state of each input.
  nlohmann::json inputs() const { return about_.value("inputs", nlohmann::json::object()); }
  const TensorEntry* find(const std::string& name) const {
    const auto at = found_.find(name);
    return at == found_.end() ? nullptr : at->second.second;
  }
  std::string bytes(const std::string& name) const {
    std::string bytes = found_.at(name).first->read(name).value();
    const auto digests = about_.find("digests");
    if (digests == about_.end() || !digests->contains(name) ||
        digests->at(name) == formats::digest_of(bytes_of(bytes)).digest)
      return bytes;
    throw corrupt(fmt::format("the tensor '{}' of {} is damaged", name, file_),
                  "compare other checkpoints by their names; muster inspect checkpoint shows which "
                  "tensors of this one are good");
  }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& [name, place] : found_) names.insert(name);
    return names;
  }

 private:
  const std::string file_;
  std::vector<SafetensorsReader> readers_;
  nlohmann::json about_ = nlohmann::json::object();
  std::map<std::string, std::pair<const SafetensorsReader*, const TensorEntry*>> found_;
};

template <typename Number>
double number_at(const std::string& bytes, size_t index) {
  return static_cast<double>(load_little_endian<Number>(bytes.data() + index * sizeof(Number)));
}

// The number at a place of the array; nothing for a dtype whose numbers are not compared.
std::optional<double> element_at(std::string_view dtype, const std::string& bytes, size_t index) {
  if (dtype == "F32") return number_at<float>(bytes, index);
  if (dtype == "F64") return number_at<double>(bytes, index);
  if (dtype == "I64") return number_at<int64_t>(bytes, index);
  if (dtype == "I32") return number_at<int32_t>(bytes, index);
  if (dtype == "BF16") {
    const auto upper = load_little_endian<uint16_t>(bytes.data() + index * 2);
    return std::bit_cast<float>(static_cast<uint32_t>(upper) << 16);
  }
  return std::nullopt;
}

std::string values_text(const TensorEntry& entry, const std::string& a, const std::string& b) {
  const auto bits = formats::safetensors_bits(entry.dtype);
  const size_t width = bits && *bits % 8 == 0 ? static_cast<size_t>(*bits / 8) : 1;
  const size_t count = a.size() / width;
  size_t differ = 0, first = 0;
  double most = 0;
  bool numbers = true;
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(a.data() + i * width, b.data() + i * width, width) == 0) continue;
    if (differ++ == 0) first = i;
    const auto x = element_at(entry.dtype, a, i), y = element_at(entry.dtype, b, i);
    numbers = numbers && x && y;
    if (numbers) {
      const double distance = std::abs(*x - *y);
      most = std::isnan(distance) ? distance : std::max(most, distance);
    }
  }
  std::string text = fmt::format("{} of {} elements differ, the first at {}", differ, count, first);
  if (numbers) {
    text +=
        fmt::format(" ({:.9g} and {:.9g}), by at most {:.3g}", *element_at(entry.dtype, a, first),
                    *element_at(entry.dtype, b, first), most);
  }
  return text;
}

std::vector<VariableDiff> diff_checkpoints(const Tensors& a, const Tensors& b) {
  std::set<std::string> names = a.names();
  names.merge(b.names());
  std::vector<VariableDiff> differ;
  for (const std::string& name : names) {
    const TensorEntry* const x = a.find(name);
    const TensorEntry* const y = b.find(name);
    const auto form = [](const TensorEntry& entry) {
      return fmt::format("{} [{}]", entry.dtype, fmt::join(entry.shape, ", "));
    };
    if (x == nullptr || y == nullptr) {
      differ.push_back(
          {name, fmt::format("only in the {} run", x != nullptr ? "first" : "second")});
    } else if (x->dtype != y->dtype || x->shape != y->shape) {
      differ.push_back({name, fmt::format("{} and {}", form(*x), form(*y))});
    } else if (const std::string p = a.bytes(name), q = b.bytes(name); p != q) {
      differ.push_back({name, values_text(*x, p, q)});
    }
  }
  return differ;
}

// "train/position/seed: 0 and 3", of the states of the inputs.
std::vector<std::string> diff_inputs(const nlohmann::json& a, const nlohmann::json& b) {
  const nlohmann::json of_a = a.flatten(), of_b = b.flatten();
  nlohmann::json all = of_a;
  all.update(of_b);
  std::vector<std::string> differ;
  for (const auto& [pointer, ignored] : all.items()) {
    const auto text = [&](const nlohmann::json& of) {
      return of.contains(pointer) ? of.at(pointer).dump() : std::string("nothing");
    };
    if (const std::string x = text(of_a), y = text(of_b); x != y)
      differ.push_back(fmt::format("{}: {} and {}", pointer.substr(1), x, y));
  }
  return differ;
}

// The checkpoints of a model_dir by step.
std::map<int64_t, std::string> by_step(FileSystem& files, const std::string& folder) {
  std::map<int64_t, std::string> found;
  for (const std::string& name : checkpoint_prefixes(files, folder))
    found[std::stoll(name.substr(name.rfind('-') + 1))] = join_path(folder, name);
  return found;
}

void diff_all_checkpoints(FileSystem& files, const std::string& a, const std::string& b,
                          RunDiff& diff) {
  const auto of_a = by_step(files, a), of_b = by_step(files, b);
  for (const auto& [step, path] : of_a) {
    const auto other = of_b.find(step);
    if (other == of_b.end()) continue;
    const Tensors x(files, path), y(files, other->second);
    if (!diff.first_inputs) diff.inputs = diff_inputs(x.inputs(), y.inputs());
    if (!diff.first_inputs && !diff.inputs.empty()) diff.first_inputs = step;
    diff.variables = diff_checkpoints(x, y);
    if (!diff.variables.empty()) {
      diff.first_checkpoint = step;
      return;
    }
    diff.same_checkpoints.push_back(step);
  }
}

bool is_rate(const std::string& tag) { return tag.ends_with("/sec"); }

// Scalars by step, folder and tag; a step that was made again counts as it was made last.
using Scalars = std::map<std::tuple<int64_t, std::string, std::string>, float>;

Scalars scalars_of(FileSystem& files, const std::string& model_dir) {
  Scalars scalars;
  std::vector<std::string> folders{""};
  for (const DirectoryEntry& entry : files.list_entries(model_dir).value()) {
    if (entry.info.is_directory) folders.push_back(entry.name);
  }
  for (const std::string& folder : folders) {
    const std::string path = folder.empty() ? model_dir : join_path(model_dir, folder);
    for (const std::string& file : formats::list_event_files(files, path).value()) {
      for (const formats::Event& event : formats::read_events(files, file).value().events) {
        for (const formats::SummaryValue& value : event.values) {
          const auto* const number = std::get_if<float>(&value.value);
          if (number == nullptr || is_rate(value.tag)) continue;
          scalars[{event.step, folder, value.tag}] = *number;
        }
      }
    }
  }
  return scalars;
}

void diff_events(const Scalars& a, const Scalars& b, RunDiff& diff) {
  for (const auto& [key, value] : a) {
    const auto& [step, folder, tag] = key;
    if (diff.first_event && step > *diff.first_event) return;
    const auto other = b.find(key);
    if (other == b.end()) continue;
    ++diff.compared_points;
    if (std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(other->second)) continue;
    diff.first_event = step;
    diff.events.push_back(
        fmt::format("{}: {:.9g} and {:.9g}", join_path(folder, tag), value, other->second));
  }
}

// The examples of one task by step, as far as steps share a record.
using ExamplesByStep = std::map<int64_t, std::vector<formats::AuditRange>>;

// By the number of tasks that read data of their own, and the task.
std::map<std::pair<int64_t, int64_t>, ExamplesByStep> examples_by_step(
    std::vector<formats::AuditSegment> segments) {
  std::map<std::pair<int64_t, int64_t>, ExamplesByStep> of_tasks;
  std::ranges::sort(segments, {},
                    [](const auto& it) { return std::pair(it.attempt, it.first_step); });
  for (const formats::AuditSegment& segment : segments) {
    ExamplesByStep& ends = of_tasks[{segment.tasks, segment.task}];
    ends.erase(ends.upper_bound(segment.first_step - 1), ends.end());
    std::vector<formats::AuditRange> all =
        ends.empty() ? decltype(segment.used){} : ends.rbegin()->second;
    for (const formats::AuditRange& range : segment.used) formats::add_range(all, range);
    ends[segment.last_step] = std::move(all);
  }
  return of_tasks;
}

void diff_examples(FileSystem& files, const std::string& a, const std::string& b, RunDiff& diff) {
  const auto has = [&](const std::string& model_dir) {
    return files.exists(join_path(model_dir, "audit")).value();
  };
  if (!has(a) || !has(b)) return;
  const auto of_a = examples_by_step(read_audit(files, a));
  const auto of_b = examples_by_step(read_audit(files, b));
  for (const auto& [task, examples] : of_a) {
    const auto others = of_b.find(task);
    if (others == of_b.end()) continue;
    int64_t same_until = 0;
    for (const auto& [step, ranges] : examples) {
      const auto other = others->second.find(step);
      if (other == others->second.end()) continue;
      if (other->second == ranges) {
        diff.same_examples = diff.same_examples.value_or(true);
        same_until = step;
        continue;
      }
      diff.same_examples = false;
      if (diff.first_examples && *diff.first_examples <= same_until + 1) break;
      diff.first_examples = same_until + 1;
      diff.examples = fmt::format("steps {} to {} used other examples", same_until + 1, step);
      if (task.first > 1)
        diff.examples += fmt::format(" in task {} of {}", task.second, task.first);
      break;
    }
  }
}

std::string diff_json(const RunDiff& diff) {
  nlohmann::json variables = nlohmann::json::array();
  for (const VariableDiff& it : diff.variables)
    variables.push_back({{"name", it.name}, {"difference", it.what}});
  const auto step = [](const std::optional<int64_t>& it) {
    return it ? nlohmann::json(*it) : nlohmann::json();
  };
  const nlohmann::json document{
      {"same", diff.same()},
      {"checkpoints",
       {{"same", diff.same_checkpoints},
        {"first_difference", step(diff.first_checkpoint)},
        {"variables", std::move(variables)}}},
      {"inputs", {{"first_difference", step(diff.first_inputs)}, {"differences", diff.inputs}}},
      {"events",
       {{"compared", diff.compared_points},
        {"first_difference", step(diff.first_event)},
        {"tags", diff.events}}},
      {"examples", {{"first_difference", step(diff.first_examples)}, {"text", diff.examples}}}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

RunDiff diff_runs(FileSystem& files, const std::string& a, const std::string& b) {
  RunDiff diff;
  const auto is_folder = [&](const std::string& path) {
    const auto info = files.info(path);
    return info.ok() && info.value().is_directory;
  };
  if (!is_folder(a) || !is_folder(b)) {
    const Tensors x(files, a), y(files, b);
    diff.variables = diff_checkpoints(x, y);
    diff.other_step = y.step();
    if (diff.variables.empty()) {
      diff.same_checkpoints.push_back(x.step().value_or(0));
    } else {
      diff.first_checkpoint = x.step().value_or(0);
    }
    return diff;
  }
  diff_all_checkpoints(files, a, b, diff);
  diff_events(scalars_of(files, a), scalars_of(files, b), diff);
  diff_examples(files, a, b, diff);
  if (diff.same_checkpoints.empty() && !diff.first_checkpoint && diff.compared_points == 0 &&
      !diff.same_examples) {
    throw not_found(
        fmt::format("{} and {} have no checkpoint, event or record of used examples of the same "
                    "step",
                    a, b),
        "name two model_dirs of runs that saved at the same steps, or two checkpoints");
  }
  return diff;
}

std::string show_diff(const RunDiff& diff, bool json) {
  if (json) return diff_json(diff);
  std::string text;
  if (!diff.same_checkpoints.empty()) {
    text += fmt::format("checkpoints: the same at step{} {}\n",
                        diff.same_checkpoints.size() == 1 ? "" : "s",
                        fmt::join(diff.same_checkpoints, ", "));
  }
  const auto add_lines = [&](const auto& all, const auto& line_of) {
    for (size_t i = 0; i < std::min(all.size(), kMostShown); ++i)
      text += "  " + line_of(all[i]) + "\n";
    if (all.size() > kMostShown)
      text += fmt::format("  and {} more (all with --json)\n", all.size() - kMostShown);
  };
  if (diff.first_checkpoint) {
    const std::string where =
        diff.other_step && diff.other_step != diff.first_checkpoint
            ? fmt::format("those of steps {} and {} differ", *diff.first_checkpoint,
                          *diff.other_step)
            : fmt::format("first difference at step {}", *diff.first_checkpoint);
    text += fmt::format("checkpoints: {}, {} variable{}\n", where, diff.variables.size(),
                        diff.variables.size() == 1 ? "" : "s");
    add_lines(diff.variables,
              [](const VariableDiff& it) { return fmt::format("{}: {}", it.name, it.what); });
  } else if (diff.same_checkpoints.empty()) {
    text += "checkpoints: the runs have none of the same step\n";
  }
  if (diff.first_inputs) {
    text += fmt::format("inputs: first difference at step {}\n", *diff.first_inputs);
    add_lines(diff.inputs, [](const std::string& it) { return it; });
  }
  if (diff.first_event) {
    text += fmt::format("events: first difference at step {}\n", *diff.first_event);
    for (const std::string& line : diff.events) text += "  " + line + "\n";
  } else if (diff.compared_points > 0) {
    text += fmt::format("events: the same, {} numbers compared\n", diff.compared_points);
  }
  if (diff.first_examples) {
    text += "examples: " + diff.examples + "\n";
  } else if (diff.same_examples) {
    text += "examples: the same places in the order of each epoch\n";
  }
  return text;
}

}  // namespace muster::app
