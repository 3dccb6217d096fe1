#include "muster/checkpoint/lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/process_identity.h"
#include "muster/base/secret.h"
#include "muster/base/uri.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

constexpr std::string_view kSuffix = ".lease";
// A file that was not touched for so long is ignored when it is seen for the first time, however
// far apart the clocks of two machines are.
constexpr double kForgottenSeconds = 600;

std::string path_of(const std::string& model_dir, const std::string& name) {
  return join_path(model_dir, name + std::string(kSuffix));
}

struct Written {
  LeaseContent content;
  std::string id{};
  ProcessIdentity by{};
};

std::string to_text(const Written& lease, int64_t beats) {
  json all = {{"holder", lease.content.holder}, {"id", lease.id}, {"space", lease.by.space},
              {"process", lease.by.process},    {"beats", beats}, {"pinned", lease.content.pinned},
              {"note", lease.content.note}};
  if (lease.content.pinned_from) all["pinned_from"] = *lease.content.pinned_from;
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// Nothing when the text is not a lease, as where a file system shows half of a file.
std::optional<Written> parse(const std::string& text) {
  const Result<json> all = parse_json(text, "a lease");
  if (!all.ok() || !all.value().is_object()) return std::nullopt;
  try {
    const json& fields = all.value();
    Written lease{.content = {.holder = fields.at("holder").get<std::string>(),
                              .pinned = fields.at("pinned").get<std::vector<std::string>>(),
                              .note = fields.at("note").get<std::string>()},
                  .id = fields.at("id").get<std::string>(),
                  .by = {.space = fields.at("space").get<std::string>(),
                         .process = fields.at("process").get<int64_t>()}};
    if (fields.contains("pinned_from"))
      lease.content.pinned_from = fields.at("pinned_from").get<int64_t>();
    return lease;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

// Whether the same request may succeed later, as where a store does not answer, or a disk has an
// I/O error.
bool passes(const Error& error) {
  return error.kind() == ErrorKind::kUnavailable || error.kind() == ErrorKind::kTimeout ||
         error.kind() == ErrorKind::kInternal;
}

}  // namespace

Lease::Lease(const std::string& model_dir, const std::string& name, LeaseContent content,
             LeaseOptions options)
    : path_(path_of(model_dir, name)),
      id_(random_secret().substr(0, 16)),
      fs_(options.fs != nullptr ? *options.fs : file_systems()),
      options_(std::move(options)),
      content_(std::move(content)) {
  if (Status made = fs_.make_directories(model_dir); !made.ok()) throw made.error();
  write_locked();
  thread_ = std::thread([this] { beat(); });
}

Lease::~Lease() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  // One that stays is dead soon, and one that cannot be read may be another's.
  if (lost_ || left_behind_ || taken_locked().value_or(true)) return;
  (void)fs_.remove(path_);
}

// Not synced: what a crash of the machine undoes is worth nothing anyway.
void Lease::write_locked() {
  const Written lease{.content = content_, .id = id_, .by = own_process()};
  const std::string text = to_text(lease, ++beats_);
  const std::string aside = fmt::format("{}.{}", path_, id_);
  const auto write = [&]() -> Status {
    // Where nothing is renamed in one step, an object appears whole.
    if (is_remote(path_)) return fs_.write_atomically(path_, text);
    // A beat that failed may have left a part of its text, after which this one would be written.
    if (Status cleared = fs_.remove(aside);
        !cleared.ok() && cleared.error().kind() != ErrorKind::kNotFound)
      return cleared;
    auto writer = fs_.open_writer(aside);
    if (!writer.ok()) return writer.error();
    if (Status done = writer.value()->append(bytes_of(text)); !done.ok()) return done;
    if (Status done = writer.value()->close(); !done.ok()) return done;
    return fs_.rename(aside, path_);
  };
  if (Status done = write(); !done.ok()) {
    if (!is_remote(path_)) (void)fs_.remove(aside);
    throw Error(done.error().kind(),
                fmt::format("cannot write the lease '{}': {}", path_, done.error().message()),
                done.error().hint());
  }
}

Result<bool> Lease::taken_locked() {
  const Result<std::string> text = fs_.read_file(path_);
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) return false;
  if (!text.ok()) {
    failed_look_ = std::chrono::steady_clock::now();
    return Error(text.error().kind(),
                 "the owner of the lease is unknown: " + text.error().message(),
                 text.error().hint());
  }
  const std::optional<Written> there = parse(text.value());
  return there && there->id != id_;
}

// While the owner of the file is unknown, it is not written: another process may have taken the
// name since.
void Lease::write_unless_taken_locked() {
  lost_ = lost_ || taken_locked().value();
  if (!lost_) write_locked();
}

void Lease::change(const std::function<void(LeaseContent&)>& edit) {
  const std::lock_guard lock(mutex_);
  edit(content_);
  write_unless_taken_locked();
}

void Lease::leave_behind() {
  const std::lock_guard lock(mutex_);
  left_behind_ = true;
}

bool Lease::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool Lease::look_whether_lost() {
  const auto asked = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  // A beat that looked in vain while this waited for its turn has looked for it, too: where a store
  // is away, each look takes minutes.
  if (!lost_ && failed_look_ < asked) lost_ = taken_locked().value_or(false);
  return lost_;
}

void Lease::beat() {
  std::unique_lock lock(mutex_);
  using std::chrono::seconds;
  const auto beat = options_.beat.value_or(is_remote(path_) ? seconds(10) : seconds(2));
  // By the machine's own clock, whatever clock the program has: others look at the file.
  while (!changed_.wait_for(lock, beat, [&] { return stop_; })) {
    if (lost_ || left_behind_) continue;
    try {
      if (options_.before_beat) options_.before_beat(content_);
      write_unless_taken_locked();
    } catch (const Error& error) {
      log::warning_once(error.message() + "; it will be retried");
    }
  }
}

LeaseWatch::LeaseWatch(const std::string& model_dir, const std::string& name, FileSystem& fs,
                       Clock& clock)
    : path_(path_of(model_dir, name)), fs_(fs), clock_(clock) {}

std::optional<LeaseContent> LeaseWatch::look() {
  const Result<std::string> text = fs_.read_file(path_);
  trouble_.reset();
  if (!text.ok() && passes(text.error())) trouble_ = text.error();
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) {
    text_.clear();
    last_ = {};
    return std::nullopt;
  }
  if (text.ok() && text.value() != text_) {
    const bool first = text_.empty();
    text_ = text.value();
    changed_ = clock_.now();
    ++changes_;
    gone_ = false;
    const Result<FileInfo> info = fs_.info(path_);
    if (first && info.ok() &&
        clock_.wall_seconds() - info.value().modified_seconds > kForgottenSeconds)
      changed_ -= kHeartbeatTimeout;
    if (const std::optional<Written> lease = parse(text_)) last_ = lease->content;
  }
  if (text_.empty()) return std::nullopt;
  if (const std::optional<Written> lease = parse(text_)) gone_ = has_ended(lease->by);
  if (gone_ || clock_.now() - changed_ >= kHeartbeatTimeout) return std::nullopt;
  return last_;
}

LeasedCheckpoints::LeasedCheckpoints(std::string model_dir, FileSystem& fs, Clock& clock)
    : model_dir_(std::move(model_dir)), fs_(fs), clock_(clock) {}

void LeasedCheckpoints::look() {
  alive_.clear();
  const Result<std::vector<std::string>> names = fs_.list_directory(model_dir_);
  unknown_ = !names.ok() && passes(names.error());
  if (!names.ok()) return;  // what is not there holds no lease
  std::set<std::string> there;
  for (const std::string& file : names.value()) {
    if (!file.ends_with(kSuffix)) continue;
    const std::string name = file.substr(0, file.size() - kSuffix.size());
    there.insert(name);
    const auto watch = watches_.try_emplace(name, model_dir_, name, fs_, clock_).first;
    if (std::optional<LeaseContent> content = watch->second.look())
      alive_.push_back(*std::move(content));
    unknown_ = unknown_ || watch->second.trouble();
  }
  std::erase_if(watches_, [&](const auto& watch) { return !there.contains(watch.first); });
}

bool LeasedCheckpoints::hold(const std::string& name) const {
  if (unknown_) return true;
  const int64_t step = checkpoint_step(name);
  return std::ranges::any_of(alive_, [&](const LeaseContent& lease) {
    return std::ranges::find(lease.pinned, name) != lease.pinned.end() ||
           (lease.pinned_from && step >= *lease.pinned_from);
  });
}

}  // namespace muster::inline v0_1
