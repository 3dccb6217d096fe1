#include "muster/board/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/board/internal/scalar_event.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::board {
namespace {

using formats::SummaryValue;
using formats::TensorSummary;

// The kind of a value that is no scalar; nothing for one that no view shows.
std::optional<TagKind> kind_of(const SummaryValue& value) {
  if (std::holds_alternative<float>(value.value)) return TagKind::kScalar;
  if (std::holds_alternative<formats::Histogram>(value.value)) return TagKind::kHistogram;
  if (std::holds_alternative<formats::ImageSummary>(value.value)) return TagKind::kImage;
  if (std::holds_alternative<formats::AudioSummary>(value.value)) return TagKind::kAudio;
  if (std::holds_alternative<std::string>(value.value)) return TagKind::kText;
  const auto* tensor = std::get_if<TensorSummary>(&value.value);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->plugin == "histograms") return TagKind::kHistogram;
  if (tensor->plugin == "images") return TagKind::kImage;
  if (tensor->plugin == "audio") return TagKind::kAudio;
  if (tensor->plugin == "text") return TagKind::kText;
  if (tensor->plugin == "pr_curves") return TagKind::kCurve;
  if (tensor->plugin == "hparams" || tensor->plugin == "custom_scalars") return std::nullopt;
  return TagKind::kTensor;
}

// How many bins or places a run's tag of this number has: the first 128 tags all, later ones less,
// so that a run with thousands of tags takes some 70 MiB at most.
size_t share_of_tag(size_t number, size_t all, size_t at_least) {
  constexpr size_t kWholeTags = 128;
  return number < kWholeTags ? all : std::max(at_least, all * kWholeTags / number);
}

constexpr size_t kMostBins = 2048, kFewBins = 64;
constexpr size_t kMostPlaces = 512, kFewPlaces = 16;
constexpr std::string_view kHparamsStart = "_hparams_/session_start_info";
constexpr std::string_view kHparamsEnd = "_hparams_/session_end_info";

}  // namespace

std::string_view to_string(TagKind kind) {
  constexpr std::string_view kNames[] = {"scalar", "histogram", "image", "audio",
                                         "text",   "curve",     "tensor"};
  return kNames[static_cast<size_t>(kind)];
}

RunData::RunData(FileSystem& files, std::string directory, RunLimits limits)
    : fs_(files),
      directory_(std::move(directory)),
      limits_(limits),
      remote_(is_remote(directory_)) {}

void RunData::set_file(const std::string& path, uint64_t size) {
  const auto known =
      std::ranges::find_if(files_, [&path](const auto& file) { return file->tail.path() == path; });
  if (known != files_.end()) {
    (*known)->size = size;
  } else {
    files_.push_back(std::make_unique<File>(File{EventTail(fs_, path), size}));
  }
}

bool RunData::read() {
  bool more = false;
  for (size_t file = 0; file < files_.size() && !more; ++file) {
    EventTail& tail = files_[file]->tail;
    more = tail.read(files_[file]->size,
                     [this, file](uint64_t offset, Bytes payload) { take(file, offset, payload); });
    for (std::string& text : tail.take_notes()) note(std::move(text));
  }
  return more;
}

void RunData::take(size_t file, uint64_t offset, Bytes payload) {
  ++events_;
  thread_local internal::ScalarEvent scalars;
  const auto seen = [this](double wall, int64_t step) {
    if (std::isfinite(wall) && wall > 0) {
      first_wall_ = std::min(first_wall_, wall);
      last_wall_ = std::max(last_wall_, wall);
    }
    last_step_ = std::max(last_step_, step);
  };
  if (internal::read_scalar_event(payload, &scalars)) {
    seen(scalars.wall, scalars.step);
    for (const auto& [tag, value] : scalars.scalars) {
      TagData* data = tag_of(tag, TagKind::kScalar);
      if (data == nullptr) continue;
      const auto& bins = data->scalars.bins();
      if (remote_ && !bins.empty() && scalars.wall <= bins.back().last_wall) continue;
      data->scalars.add(scalars.step, scalars.wall, value);
    }
    return;
  }
  const Result<formats::Event> event = formats::decode_event(payload);
  if (!event.ok()) {
    note(fmt::format("{}: the record at byte {} is not an event, and is skipped",
                     files_[file]->tail.path(), offset));
    return;
  }
  seen(event.value().wall_time, event.value().step);
  take_event(event.value(),
             {event.value().step, event.value().wall_time, static_cast<uint32_t>(file), offset});
}

void RunData::take_event(const formats::Event& event, const RecordPlace& place) {
  if (event.session_log && event.session_log->status == formats::SessionStatus::kStart)
    drop_from(event.step);
  if (event.graph && !graph_) graph_ = place;
  for (const SummaryValue& value : event.values) take_value(value, place);
}

void RunData::take_value(const SummaryValue& value, const RecordPlace& place) {
  if (value.tag == kHparamsStart) hparams_ = place;
  if (value.tag == kHparamsEnd) hparams_end_ = place;
  std::optional<TagKind> kind = kind_of(value);
  if (kind == TagKind::kTensor) {
    // Some writers name the plugin in the first event of a tag alone.
    const auto known = tags_.find(std::string_view(value.tag));
    if (known != tags_.end()) kind = known->second.kind;
  }
  if (!kind) return;
  TagData* data = tag_of(value.tag, *kind);
  if (data == nullptr) return;
  if (*kind != TagKind::kScalar) {
    data->records.add(place);
  } else if (const auto* number = std::get_if<float>(&value.value)) {
    const auto& bins = data->scalars.bins();
    if (!remote_ || bins.empty() || place.wall > bins.back().last_wall)
      data->scalars.add(place.step, place.wall, *number);
  }
}

TagData* RunData::tag_of(std::string_view name, TagKind kind) {
  const auto known = tags_.find(name);
  if (known != tags_.end()) return known->second.kind == kind ? &known->second : nullptr;
  if (tags_.size() >= limits_.most_tags || name.size() > limits_.most_tag_bytes || !is_utf8(name)) {
    ++refused_tags_;
    return nullptr;
  }
  const size_t number = tags_.size();
  TagData& made = tags_[std::string(name)];
  made.kind = kind;
  made.scalars = ScalarSeries(share_of_tag(number, kMostBins, kFewBins));
  made.records = RecordList(share_of_tag(number, kMostPlaces, kFewPlaces));
  return &made;
}

void RunData::drop_from(int64_t step) {
  for (auto& [name, tag] : tags_) {
    tag.scalars.drop_from(step);
    tag.records.drop_from(step);
  }
}

void RunData::note(std::string text) {
  if (notes_.size() < limits_.most_notes) {
    notes_.push_back(printable(text));
  } else {
    ++more_notes_;
  }
}

std::vector<std::string> RunData::notes() const {
  std::vector<std::string> all = notes_;
  if (more_notes_ > 0) all.push_back(fmt::format("... and {} more like these", more_notes_));
  if (refused_tags_ > 0) {
    all.push_back(fmt::format(
        "{} values are not shown: a run shows {} tags, of at most {} bytes of UTF-8 each",
        refused_tags_, limits_.most_tags, limits_.most_tag_bytes));
  }
  for (const auto& file : files_) {
    if (file->tail.ends_inside())
      all.push_back(printable(file->tail.path()) +
                    " ends inside a record: it is still being written, or was cut");
  }
  return all;
}

std::vector<std::string> RunData::paths() const {
  std::vector<std::string> all;
  for (const auto& file : files_) all.push_back(file->tail.path());
  return all;
}

uint64_t RunData::bytes() const {
  uint64_t sum = 0;
  for (const auto& file : files_) sum += file->size;
  return sum;
}

uint64_t RunData::read_bytes() const {
  uint64_t sum = 0;
  for (const auto& file : files_)
    sum += file->tail.ends_inside() ? file->size : std::min(file->tail.offset(), file->size);
  return sum;
}

formats::Event RunData::event_at(const RecordPlace& place) const {
  const std::string& path = files_.at(place.file)->tail.path();
  formats::TfrecordReader reader =
      formats::TfrecordReader::open(fs_, path, formats::Compression::kNone).value();
  reader.seek(place.offset).value();
  Bytes payload;
  if (reader.poll(&payload).value() != formats::RecordState::kRecord) {
    throw not_found(
        fmt::format("{}: the record at byte {} is not there any more", path, place.offset));
  }
  return formats::decode_event(payload).value();
}

ScalarPoints RunData::read_points(const std::optional<std::string>& tag, size_t most) const {
  ScalarPoints all;
  size_t count = 0;
  const auto add = [&](std::string_view name, const ScalarPoint& point) {
    if (tag && name != *tag) return;
    auto found = all.find(name);
    if (found == all.end()) found = all.emplace(std::string(name), 0).first;
    if (remote_ && !found->second.empty() && point.wall <= found->second.back().wall) return;
    if (++count > most) {
      throw invalid_argument(fmt::format("{} has more than {} points here", directory_, most),
                             "ask for one tag, or read the files with muster inspect events");
    }
    found->second.push_back(point);
  };
  internal::ScalarEvent scalars;
  const auto take = [&](uint64_t /*offset*/, Bytes payload) {
    if (internal::read_scalar_event(payload, &scalars)) {
      for (const auto& [name, value] : scalars.scalars)
        add(name, {scalars.step, scalars.wall, value});
      return;
    }
    const Result<formats::Event> decoded = formats::decode_event(payload);
    if (!decoded.ok()) return;
    const formats::Event& event = decoded.value();
    if (event.session_log && event.session_log->status == formats::SessionStatus::kStart) {
      for (auto& [name, points] : all) {
        count -= std::erase_if(
            points, [&event](const ScalarPoint& point) { return point.step >= event.step; });
      }
    }
    for (const SummaryValue& value : event.values) {
      if (const auto* number = std::get_if<float>(&value.value))
        add(value.tag, {event.step, event.wall_time, *number});
    }
  };
  for (const auto& file : files_) {
    EventTail tail(fs_, file->tail.path());
    while (tail.read(file->tail.offset(), take)) {
    }
  }
  return all;
}

}  // namespace muster::inline v0_1::board
