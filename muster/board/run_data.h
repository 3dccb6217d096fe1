// What is known of one run, which is a folder with event files: its tags with their scalars, the
// places of its other records, its graph and its hyperparameters. Memory is bounded: by the limits
// of a series and of a list for each tag, and by a number of tags. Thread safety: one thread at a
// time; RunStore has a lock for each run.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/board/event_tail.h"
#include "muster/board/record_list.h"
#include "muster/board/scalar_series.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1::board {

// What a tag holds.
enum class TagKind { kScalar, kHistogram, kImage, kAudio, kText, kCurve, kTensor };
// Returns "scalar", "histogram", "image", "audio", "text", "curve" (of precision and recall) or
// "tensor".
std::string_view to_string(TagKind kind);

struct TagData {
  TagKind kind = TagKind::kScalar;
  ScalarSeries scalars{};  // of kScalar
  RecordList records{};    // of the other kinds
};

// A text finds its like without a copy.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Tags = std::unordered_map<std::string, TagData, TextHash, std::equal_to<>>;

// A point of a scalar.
struct ScalarPoint {
  int64_t step = 0;
  double wall = 0;  // Unix time, seconds
  float value = 0;
};
using ScalarPoints = std::map<std::string, std::vector<ScalarPoint>, std::less<>>;

// The limits of a run.
struct RunLimits {
  size_t most_tags = 5000;
  size_t most_tag_bytes = 1000;
  size_t most_notes = 50;
};

class RunData {
 public:
  // `directory` holds the event files. `files` must outlive it.
  RunData(FileSystem& files, std::string directory, RunLimits limits = {});

  // Notes an event file of the folder and its size in bytes now.
  void set_file(const std::string& path, uint64_t size);
  // Reads about one slice of the files. Returns whether there is more to read now.
  bool read();

  // The event at that place, read again from its file. Throws NotFound or Corrupt when the file has
  // changed, and the errors of the file system.
  formats::Event event_at(const RecordPlace& place) const;
  // The points in the files, of one tag or of all scalars, in the order in which they were written.
  // Restarts are taken into account: points that a later start of the run replaced are left out.
  // Throws InvalidArgument for more than `most` points, and the errors of the file system.
  ScalarPoints read_points(const std::optional<std::string>& tag, size_t most) const;

  const std::string& directory() const { return directory_; }
  const Tags& tags() const { return tags_; }
  const std::optional<RecordPlace>& graph() const { return graph_; }
  const std::optional<RecordPlace>& hparams() const { return hparams_; }
  // The record that says how the run ended, for the HParams page.
  const std::optional<RecordPlace>& hparams_end() const { return hparams_end_; }
  // What was wrong with the files, a sentence each: at most `most_notes`, then a sentence with the
  // number of the others.
  std::vector<std::string> notes() const;
  std::vector<std::string> paths() const;
  double first_wall() const { return first_wall_; }
  double last_wall() const { return last_wall_; }
  int64_t last_step() const { return last_step_; }
  int64_t events() const { return events_; }
  uint64_t bytes() const;  // of the files, as they were listed
  // Of them, what was read; a record whose end is not there yet counts as read.
  uint64_t read_bytes() const;

 private:
  struct File {
    EventTail tail;
    uint64_t size;
  };

  void take(size_t file, uint64_t offset, Bytes payload);
  void take_event(const formats::Event& event, const RecordPlace& place);
  void take_value(const formats::SummaryValue& value, const RecordPlace& place);
  // The data of a tag, made when it is new; nullptr beyond the limits, or for another kind.
  TagData* tag_of(std::string_view name, TagKind kind);
  void drop_from(int64_t step);
  void note(std::string text);

  FileSystem& fs_;
  const std::string directory_;
  const RunLimits limits_;
  const bool remote_;  // in a store, where joined files show old events again
  std::vector<std::unique_ptr<File>> files_;
  Tags tags_;
  std::optional<RecordPlace> graph_, hparams_, hparams_end_;
  std::vector<std::string> notes_;
  int64_t more_notes_ = 0;
  int64_t refused_tags_ = 0;
  double first_wall_ = std::numeric_limits<double>::infinity();
  double last_wall_ = -std::numeric_limits<double>::infinity();
  int64_t last_step_ = 0;
  int64_t events_ = 0;
};

}  // namespace muster::inline v0_1::board
