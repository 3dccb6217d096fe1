#include "muster/jobs/log_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/regular_file.h"
#include "muster/launch/lines.h"

namespace muster::inline v0_1::jobs {
namespace {

// There is no notice when files of other machines grow, so they are looked at.
constexpr std::chrono::milliseconds kLook{20};
constexpr size_t kBlock = 64 * 1024;

// One file, and how far it was read.
class Reading {
 public:
  Reading(const LogFile& file, const LogSink& sink) : file_(file), sink_(sink) {}

  // Goes to where the last `count` lines begin, which may be the beginning.
  void skip_to_last(int count) {
    if (!open_file()) return;
    off_t at = lseek(fd_.get(), 0, SEEK_END);
    std::array<char, kBlock> bytes;
    // The line end of the last line begins no other line.
    for (bool last = true; at > 0;) {
      const off_t begin = std::max<off_t>(0, at - static_cast<off_t>(kBlock));
      const ssize_t got = pread(fd_.get(), bytes.data(), static_cast<size_t>(at - begin), begin);
      if (got <= 0) return;
      for (ssize_t i = got; i-- > 0;) {
        const bool first = std::exchange(last, false);
        if (bytes[static_cast<size_t>(i)] != '\n' || (first && count > 0)) continue;
        if (count-- > 0 && count > 0) continue;
        offset_ = begin + i + 1;
        return;
      }
      at = begin;
    }
  }

  // Passes on all lines that are whole. Returns whether there were any.
  bool read_lines() {
    if (!open_file()) return false;
    int count = 0;
    std::array<char, kBlock> bytes;
    for (;;) {
      const ssize_t got = pread(fd_.get(), bytes.data(), bytes.size(), offset_);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw from_errno(errno, "cannot read " + file_.path);
      if (got == 0 && !was_cut()) return count > 0;
      offset_ += got;
      count += lines_.append({bytes.data(), static_cast<size_t>(got)},
                             [this](std::string_view line) { pass(line); });
    }
  }

  // Passes on a line without an end.
  void finish() {
    lines_.finish([this](std::string_view line) { pass(line); });
  }

 private:
  bool open_file() {
    if (fd_.is_open()) return true;
    Result<FileDescriptor> opened = open_regular_file(file_.path, O_RDONLY);
    if (!opened.ok() && opened.error().kind() == ErrorKind::kNotFound) return false;
    fd_ = std::move(opened).value();
    return true;
  }

  // Whether the file was emptied since, as logrotate does with `copytruncate`; then it is read from
  // its beginning.
  bool was_cut() {
    struct stat now {};
    if (fstat(fd_.get(), &now) != 0) throw from_errno(errno, "cannot read " + file_.path);
    if (now.st_size >= offset_) return false;
    finish();
    offset_ = 0;
    return true;
  }

  void pass(std::string_view line) {
    if (file_.prefix.empty()) {
      sink_(line);
    } else {
      sink_(file_.prefix + std::string(line));
    }
  }

  const LogFile& file_;
  const LogSink& sink_;
  FileDescriptor fd_;
  off_t offset_ = 0;
  launch::Lines lines_;
};

}  // namespace

void read_logs(const std::vector<LogFile>& files, const LogOptions& options,
               const std::function<bool()>& ended, const LogSink& sink) {
  std::vector<Reading> readings;
  for (const LogFile& file : files) readings.emplace_back(file, sink);
  if (options.tail) {
    for (Reading& reading : readings) reading.skip_to_last(*options.tail);
  }
  for (bool last = !options.follow;;) {
    bool any = false;
    for (Reading& reading : readings) any |= reading.read_lines();
    if (last || options.interrupted()) break;
    // Lines written before the end are read once more.
    last = ended();
    if (!last && !any) std::this_thread::sleep_for(kLook);
  }
  for (Reading& reading : readings) reading.finish();
}

}  // namespace muster::inline v0_1::jobs
