#include "muster/summary/event_writer.h"

#include <fmt/format.h>

#include "muster/base/log.h"
#include "muster/base/uri.h"
#include "muster/formats/tfrecord.h"
#include "muster/summary/histogram.h"
#include "muster/summary/internal/event_file.h"
#include "muster/summary/internal/event_parts.h"

namespace muster::inline v0_1::summary {
EventWriter::EventWriter(std::string directory, FileSystem& files, Clock& clock,
                         EventWriterOptions options)
    : directory_(std::move(directory)),
      files_(files),
      clock_(clock),
      options_(std::move(options)),
      last_write_(clock.now()) {
  if (is_remote(directory_)) {
    parts_ = std::make_unique<internal::EventParts>(
        directory_, files_, clock_, internal::EventPartsOptions{.suffix = options_.suffix});
  }
}

EventWriter::~EventWriter() {
  try {
    close();
  } catch (const std::exception& error) {
    log::warning(fmt::format("summaries were lost: {}", error.what()));
  }
}

void EventWriter::add_scalar(const std::string& tag, double value, int64_t step) {
  add_scalars({{tag, value}}, step);
}

void EventWriter::add_scalars(const std::vector<std::pair<std::string, double>>& scalars,
                              int64_t step) {
  if (scalars.empty()) return;
  formats::Event event{.step = step};
  for (const auto& [tag, value] : scalars) event.values.push_back({tag, static_cast<float>(value)});
  add(std::move(event));
}

void EventWriter::add_histogram(const std::string& tag, std::span<const float> values,
                                int64_t step) {
  formats::Event event{.step = step};
  try {
    event.values.push_back({tag, make_histogram(values)});
  } catch (const Error& error) {
    throw error.with_context(fmt::format("cannot add the histogram '{}' of step {}", tag, step));
  }
  add(std::move(event));
}

void EventWriter::add_text(const std::string& tag, const std::string& text, int64_t step) {
  add({.step = step, .values = {{tag, text}}});
}

void EventWriter::add_values(std::vector<formats::SummaryValue> values, int64_t step) {
  if (!values.empty()) add({.step = step, .values = std::move(values)});
}

void EventWriter::add_graph(formats::GraphDef graph, int64_t step) {
  add({.step = step, .graph = std::move(graph)});
}

void EventWriter::add_session_log(formats::SessionStatus status, int64_t step,
                                  const std::string& checkpoint_path) {
  add({.step = step,
       .session_log = formats::SessionLog{.status = status, .checkpoint_path = checkpoint_path}});
}

void EventWriter::add(formats::Event event) {
  std::lock_guard lock(mutex_);
  add_locked(std::move(event));
}

void EventWriter::add_locked(formats::Event event) {
  if (closed_) {
    throw invalid_argument("an event was added to the closed event writer of '" + directory_ + "'",
                           "keep the writer open until the last event, or make a new one");
  }
  if (event.wall_time == 0) event.wall_time = clock_.wall_seconds();
  const std::string bytes = formats::encode_event(event).value();
  formats::append_tfrecord(buffer_, bytes_of(bytes));
  ++buffered_events_;
  const bool due = clock_.now() - last_write_ >= from_seconds(options_.flush_seconds);
  if (due || buffer_.size() >= options_.buffer_bytes) write_locked();
}

void EventWriter::write_locked() {
  last_write_ = clock_.now();
  if (buffer_.empty()) return;
  if (parts_ != nullptr) {
    parts_->add(buffer_, buffered_events_);
    buffer_.clear();
    buffered_events_ = 0;
    return;
  }
  const Status written = write_buffer();
  const int64_t lost = buffered_events_;
  buffer_.clear();
  buffered_events_ = 0;
  if (written.ok()) return;
  // A record may be cut off; readers would not see later records in the same file.
  file_.reset();
  throw written.error().with_context(
      fmt::format("{} summary events for '{}' were lost", lost, directory_));
}

Status EventWriter::write_buffer() {
  if (file_ == nullptr) {
    if (Status opened = open_file(); !opened.ok()) return opened;
  }
  if (Status appended = file_->append(bytes_of(buffer_)); !appended.ok()) return appended;
  return file_->flush();
}

Status EventWriter::open_file() {
  if (Status made = files_.make_directories(directory_); !made.ok()) return made;
  const double now = clock_.wall_seconds();
  path_ = join_path(directory_, internal::event_file_name(
                                    static_cast<int64_t>(now),
                                    std::to_string(internal::next_event_file()), options_.suffix));
  Result<std::unique_ptr<FileWriter>> file = files_.open_writer(path_);
  if (!file.ok()) return file.error();
  file_ = std::move(file.value());
  return file_->append(bytes_of(internal::event_file_header(now)));
}

void EventWriter::flush() {
  std::lock_guard lock(mutex_);
  write_locked();
}

void EventWriter::close() {
  std::lock_guard lock(mutex_);
  if (std::exchange(closed_, true)) return;
  write_locked();
  if (parts_ != nullptr) parts_->close();
  if (file_ != nullptr) file_->close().value();
}

std::string EventWriter::path() const {
  std::lock_guard lock(mutex_);
  return parts_ != nullptr ? parts_->path() : path_;
}

}  // namespace muster::inline v0_1::summary
