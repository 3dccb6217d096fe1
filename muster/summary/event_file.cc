#include "muster/summary/internal/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "muster/formats/event.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::summary::internal {
namespace {

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace

int64_t next_event_file() {
  static std::atomic<int64_t> counter{0};
  return counter.fetch_add(1);
}

std::string event_file_name(int64_t seconds, const std::string& number, const std::string& suffix) {
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}{}", seconds, host_name(), ::getpid(),
                     number, suffix);
}

std::string event_file_header(double wall_time) {
  const formats::Event first{.wall_time = wall_time,
                             .file_version = std::string(formats::kEventFileVersion)};
  std::string record;
  formats::append_tfrecord(record, bytes_of(formats::encode_event(first).value()));
  return record;
}

}  // namespace muster::inline v0_1::summary::internal
