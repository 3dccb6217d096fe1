// Writes values for TensorBoard, by step, into one event file. Thread safety: any thread may call
// any function.
//
// Events are kept in memory. They are written when 64 KiB have gathered, when an event is added 120
// s after the last write, and by flush() and close(), so that a killed process loses little. The
// first write makes the file.
//
// In a store, whose files do not grow, each write makes a file of its own, whole from the first
// moment, with a name that sorts after the names before it, so that TensorBoard reads all of them.
// These files are sent in the background: only close() waits for the network, for 30 s at most. A
// file that cannot be sent is tried again. This is warned of once, and is never an error.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1::summary {

namespace internal {
class EventParts;
}

// Says when to write, and under which name.
struct EventWriterOptions {
  size_t buffer_bytes = 64 * 1024;
  double flush_seconds = 120;
  std::string suffix{};  // added to the file name
};

class MUSTER_PART_EXPORT EventWriter {
 public:
  // Makes a writer; no file is opened yet. `files` and `clock` must outlive the writer.
  EventWriter(std::string directory, FileSystem& files, Clock& clock,
              EventWriterOptions options = {});
  // Closes the file; a failure is logged.
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Adds a scalar. This call and those below throw Error when events have to be written and cannot
  // be; the events gathered so far are then dropped (the message says how many), and the next write
  // starts a new file. After close() they throw InvalidArgument.
  void add_scalar(const std::string& tag, double value, int64_t step);
  // Adds several scalars of one step as one event.
  void add_scalars(const std::vector<std::pair<std::string, double>>& scalars, int64_t step);
  // Adds a histogram of the values. Throws NonFinite, naming the tag, when a value is NaN or
  // infinite.
  void add_histogram(const std::string& tag, std::span<const float> values, int64_t step);
  // Adds text, which TensorBoard shows as Markdown.
  void add_text(const std::string& tag, const std::string& text, int64_t step);
  // Adds summaries of any kinds, as one event.
  void add_values(std::vector<formats::SummaryValue> values, int64_t step);
  // Adds the graph of the model; TensorBoard shows the first of a run.
  void add_graph(formats::GraphDef graph, int64_t step);
  // Adds a note on the run. kStart at `step`, the first one it makes, lets TensorBoard hide an
  // earlier run's events for that step and later ones.
  void add_session_log(formats::SessionStatus status, int64_t step,
                       const std::string& checkpoint_path = {});
  // Adds `event` unchanged; only a wall_time of 0 becomes the time now.
  void add(formats::Event event);

  // Gives everything to the operating system, so that readers see it; in a store it is on its way
  // then.
  void flush();
  // Flushes; nothing may be added after it. Closing again does nothing.
  void close();

  // The path of the file that is being written: <directory>/events.out.tfevents.<10 digits of
  // seconds>.<host>.<pid>.<n><suffix>. It is empty before the first write. In a store, the path of
  // the file that was sent last.
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
  std::unique_ptr<internal::EventParts> parts_;  // in a store
  std::unique_ptr<FileWriter> file_;
  std::string path_;
  std::string buffer_;
  int64_t buffered_events_ = 0;
  TimePoint last_write_;
  bool closed_ = false;
};

}  // namespace muster::inline v0_1::summary
