// Writes what TensorBoard shows: scalars, histograms and text by step, into one event file.
// Thread safety: any thread may call any function.
//
// Events are kept in memory and written when 64 KiB have gathered, every 120 s (looked at when
// something is added), and by flush() and close(): what a killed process loses is bounded by that.
// The file is made with the first write.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1::summary {

// When to write, and under which name.
struct EventWriterOptions {
  size_t buffer_bytes = 64 * 1024;
  double flush_seconds = 120;
  std::string suffix;  // added to the file name
};

class EventWriter {
 public:
  // Opens nothing yet. `files` and `clock` must outlive the writer.
  EventWriter(std::string directory, FileSystem& files, Clock& clock,
              EventWriterOptions options = {});
  // Closes; a failure is logged.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // All of these throw Error when events have to be written and cannot be; the events gathered so
  // far are then dropped (the message says how many), and the next write starts a new file. After
  // close() they throw InvalidArgument.
  void add_scalar(const std::string& tag, double value, int64_t step);
  // Several scalars of one step in one event.
  void add_scalars(const std::vector<std::pair<std::string, double>>& scalars, int64_t step);
  // Throws NonFinite, naming the tag, when a value is.
  void add_histogram(const std::string& tag, std::span<const float> values, int64_t step);
  // Text TensorBoard shows as Markdown.
  void add_text(const std::string& tag, const std::string& text, int64_t step);
  // kStart at `step` makes TensorBoard hide what an earlier run wrote for later steps.
  void add_session_log(formats::SessionStatus status, int64_t step,
                       const std::string& checkpoint_path = {});
  // `event` as it is, but for a wall_time of 0, which becomes now.
  void add(formats::Event event);

  // Hands everything to the operating system, so that readers see it.
  void flush();
  // flush(), and nothing more may be added. Closing again does nothing.
  void close();

  // The file being written: <directory>/events.out.tfevents.<10 digits of
  // seconds>.<host>.<pid>.<n><suffix>; empty before the first write.
  std::string path() const;

 private:
  void add_locked(formats::Event event);
  void write_locked();
  Status write_buffer();
  Status open_file();

  const std::string directory_;
  FileSystem& files_;
  Clock& clock_;
  const EventWriterOptions options_;

  mutable std::mutex mutex_;
  std::unique_ptr<FileWriter> file_;
  std::string path_;
  std::string buffer_;
  int64_t buffered_events_ = 0;
  TimePoint last_write_;
  bool closed_ = false;
};

}  // namespace muster::inline v0_1::summary
