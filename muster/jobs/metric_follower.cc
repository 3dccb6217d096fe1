#include "muster/jobs/metric_follower.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/formats/event.h"
#include "muster/formats/number_text.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::jobs {
namespace {

// Folders below the run's folder hold evaluations, not other runs.
constexpr int kDepth = 3;

std::string name_of(const std::string& folder, const std::string& tag) {
  return folder.empty() ? tag : folder + "/" + tag;
}

bool evaluates(const std::string& folder) {
  return folder.find("eval") != std::string::npos || folder.find("valid") != std::string::npos;
}

// Reads a number, or a text of one.
bool number_of(const nlohmann::json& value, double* number) {
  if (value.is_string()) return formats::parse_number(value.get<std::string>(), number);
  if (!value.is_number()) return false;
  *number = value.get<double>();
  return true;
}

}  // namespace

MetricFollower::MetricFollower(FileSystem& files, std::string directory, std::string metric)
    : files_(files), directory_(std::move(directory)), metric_(std::move(metric)) {}

Status MetricFollower::read() {
  if (Status read = read_folder("", 0); !read.ok()) return read;
  return read_report();
}

// The file is written anew each time, so a look may meet half of it: earlier values stay.
Status MetricFollower::read_report() {
  const Result<std::string> text = files_.read_file(join_path(directory_, kReportFile));
  if (!text.ok())
    return text.error().kind() == ErrorKind::kNotFound ? Status() : Status(text.error());
  for (const std::string& line : split(text.value(), '\n')) {
    const Result<nlohmann::json> parsed = parse_json(line, kReportFile);
    if (!parsed.ok() || !parsed.value().is_object()) continue;
    double step = 0;
    for (const auto& [name, value] : parsed.value().items()) {
      if (name == "global_step") number_of(value, &step);
    }
    for (const auto& [name, value] : parsed.value().items()) {
      if (name == "global_step" || name == "timestamp" || name == "trial") continue;
      names_.insert(name);
      double number = 0;
      if (name == metric_ && number_of(value, &number))
        reported_[static_cast<int64_t>(step)] = number;
    }
  }
  return {};
}

const std::map<int64_t, double>& MetricFollower::measurements(bool ended) const {
  static const std::map<int64_t, double> none;
  if (by_folder_.empty()) return reported_;
  const auto evaluated = std::find_if(by_folder_.begin(), by_folder_.end(),
                                      [](const auto& one) { return evaluates(one.first); });
  if (evaluated != by_folder_.end()) return evaluated->second;
  const bool exact = metric_.find('/') != std::string::npos;
  return exact || ended ? by_folder_.begin()->second : none;
}

Status MetricFollower::read_folder(const std::string& folder, int depth) {
  const std::string path = folder.empty() ? directory_ : join_path(directory_, folder);
  const Result<std::vector<std::string>> entries = files_.list_directory(path);
  if (!entries.ok())
    return entries.error().kind() == ErrorKind::kNotFound ? Status() : Status(entries.error());
  for (const std::string& entry : entries.value()) {
    const std::string inside = join_path(path, entry);
    if (entry.find(".tfevents.") != std::string::npos) {
      if (Status read = read_file(folder, inside); !read.ok()) return read;
      continue;
    }
    if (depth == kDepth) continue;
    const Result<FileInfo> info = files_.info(inside);
    if (!info.ok() && info.error().kind() != ErrorKind::kNotFound) return info.error();
    if (!info.ok() || !info.value().is_directory) continue;
    if (Status read = read_folder(name_of(folder, entry), depth + 1); !read.ok()) return read;
  }
  return {};
}

Status MetricFollower::read_file(const std::string& folder, const std::string& path) {
  const Result<FileInfo> info = files_.info(path);
  uint64_t& offset = offsets_[path];
  if (!info.ok() && info.error().kind() != ErrorKind::kNotFound) return info.error();
  // A file that disappears was removed by the run.
  if (!info.ok() || info.value().size <= offset) return {};
  Result<formats::TfrecordReader> opened =
      formats::TfrecordReader::open(files_, path, formats::Compression::kNone);
  if (!opened.ok()) return opened.error();
  formats::TfrecordReader& reader = opened.value();
  if (Status at = reader.seek(offset); !at.ok()) return at;
  Bytes payload;
  for (;;) {
    const Result<formats::RecordState> state = reader.poll(&payload);
    if (!state.ok() || state.value() != formats::RecordState::kRecord) return {};
    offset = reader.offset();
    const Result<formats::Event> event = formats::decode_event(payload);
    if (!event.ok()) continue;
    for (const formats::SummaryValue& value : event.value().values) {
      const float* scalar = std::get_if<float>(&value.value);
      if (scalar == nullptr) continue;
      const std::string name = name_of(folder, value.tag);
      names_.insert(name);
      if (name == metric_ || value.tag == metric_) {
        by_folder_[folder][event.value().step] = *scalar;
      }
    }
  }
}

}  // namespace muster::inline v0_1::jobs
