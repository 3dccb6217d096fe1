#include "muster/jobs/job_record.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/jobs/commands.h"
#include "muster/jobs/target.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr size_t kLongestName = 63;

bool small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

bool is_job_name(std::string_view name) {
  const bool letters =
      std::ranges::all_of(name, [](char c) { return small_letter(c) || digit(c) || c == '-'; });
  return !name.empty() && name.size() <= kLongestName && letters && small_letter(name.front()) &&
         name.back() != '-';
}

std::string to_text(const JobRecord& record) {
  nlohmann::ordered_json text = {{"name", record.name},
                                 {"target", record.target},
                                 {"id", record.id},
                                 {"job_dir", record.job_dir},
                                 {"command", record.command},
                                 {"commands", record.commands},
                                 {"submitted", record.submitted},
                                 {"details", record.details},
                                 {"submission", record.submission}};
  return text.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Returns nothing if there is no record in `folder`, or none that can be read: a job that is being
// submitted, or a foreign folder.
std::optional<JobRecord> read_record(const std::string& folder) {
  const auto text = local_file_system().read_file(join_path(folder, kRecordFile));
  if (!text.ok()) return std::nullopt;
  const auto parsed = parse_json(text.value(), kRecordFile);
  if (!parsed.ok() || !parsed.value().is_object()) return std::nullopt;
  try {
    const nlohmann::json& json = parsed.value();
    return JobRecord{.name = json.at("name"),
                     .target = json.at("target"),
                     .id = json.at("id"),
                     .folder = folder,
                     .job_dir = json.at("job_dir"),
                     .command = json.at("command"),
                     .commands = json.value("commands", Commands()),
                     .submitted = json.at("submitted"),
                     .details = json.at("details"),
                     .submission = json.value("submission", "")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

// Where a job is while another has its name: no job is called so.
std::string place_aside(const std::string& store, const JobRecord& record) {
  return join_path(store, "." + record.name);
}

// The highest number among the folders "base-1", "base-2", ...; 0 if there is none.
int64_t highest_number(const std::string& store, const std::string& base) {
  // Larger numbers are names that a user chose.
  constexpr int64_t kMost = 99'999'999;
  const auto names = local_file_system().list_directory(store);
  if (!names.ok() && names.error().kind() != ErrorKind::kNotFound) throw names.error();
  int64_t highest = 0;
  for (const std::string& name : names.value_or({})) {
    if (!name.starts_with(base + "-")) continue;
    const auto number = parse_int(std::string_view(name).substr(base.size() + 1));
    if (number && *number < kMost) highest = std::max(highest, *number);
  }
  return highest;
}

Error taken(const JobRecord& record) {
  // As where a submission was killed in its first moment.
  if (!read_record(record.folder)) {
    return invalid_argument(
        fmt::format("the folder {} exists already, but has no readable record", record.folder),
        fmt::format("take another --name, or remove it: rm -r {}",
                    launch::shell_quoted(record.folder)));
  }
  return invalid_argument(
      fmt::format("there is a job '{}' already, in {}", record.name, record.folder),
      fmt::format("take another --name, or forget that one: muster jobs remove {}", record.name));
}

}  // namespace

void check_job_name(std::string_view name) {
  if (is_job_name(name)) return;
  throw invalid_argument(
      fmt::format("'{}' cannot be the name of a job", name),
      fmt::format("use 1 to {} small letters, digits and '-', a letter first and no '-' last, such "
                  "as {}",
                  kLongestName, job_name_from(name)));
}

std::string job_name_from(std::string_view text) {
  std::string name;
  for (const char c : to_lower(text)) {
    if (small_letter(c) || (digit(c) && !name.empty())) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name = name.substr(0, kLongestName);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "job" : name;
}

JobStore::JobStore(std::string folder) : folder_(std::move(folder)) {}

JobStore JobStore::of(const Environment& environment) {
  const std::string state = environment.get_or("XDG_STATE_HOME", "");
  if (state.starts_with('/')) return JobStore(state + "/muster/jobs");
  const std::string home = environment.get_or("HOME", "");
  if (home.starts_with('/')) return JobStore(home + "/.local/state/muster/jobs");
  throw invalid_argument(
      fmt::format("there is no place for records of jobs: XDG_STATE_HOME is '{}' and HOME is '{}'",
                  state, home),
      "set one of them to an absolute path");
}

JobRecord JobStore::preview(const std::string& name, const std::string& stem) const {
  if (!name.empty()) {
    check_job_name(name);
    return {.name = name, .folder = join_path(folder_, name)};
  }
  // Room for "-" and a number.
  const std::string base = job_name_from(stem).substr(0, kLongestName - 10);
  const std::string next = fmt::format("{}-{}", base, highest_number(folder_, base) + 1);
  return {.name = next, .folder = join_path(folder_, next)};
}

void JobStore::check_free(const std::string& name) const {
  if (name.empty()) return;
  const JobRecord record = preview(name, "");
  if (local_file_system().exists(record.folder).value()) throw taken(record);
}

JobRecord JobStore::add(const std::string& name, const std::string& stem) {
  local_file_system().make_directories(folder_).value();
  for (;;) {
    JobRecord record = preview(name, stem);
    if (mkdir(record.folder.c_str(), 0700) == 0) return record;
    if (errno != EEXIST) throw from_errno(errno, "cannot make the folder " + record.folder);
    // Another process was quicker; without a name of the user's there is a next one.
    if (name.empty()) continue;
    throw taken(record);
  }
}

void JobStore::save(const JobRecord& record) const {
  local_file_system()
      .write_atomically(join_path(record.folder, kRecordFile), to_text(record))
      .value();
}

JobRecord JobStore::find(const std::string& name) const {
  if (is_job_name(name)) {  // "..", among others, is none
    if (auto record = read_record(join_path(folder_, name))) return *record;
  }
  constexpr size_t kShown = 10;
  std::vector<std::string> names;
  for (const JobRecord& record : list()) names.push_back(record.name);
  std::ranges::reverse(names);  // the newest first
  const auto near = meant_by(name, names);
  throw not_found(fmt::format("there is no job '{}' in {}", name, folder_),
                  near ? fmt::format("did you mean {}? muster jobs list shows all", *near)
                  : names.empty() ? "there are no jobs: muster submit starts one"
                                  : fmt::format("muster jobs list shows those there are: {}",
                                                join_quoted(names, kShown)));
}

std::vector<JobRecord> JobStore::list() const {
  std::vector<JobRecord> records;
  const auto names = local_file_system().list_directory(folder_);
  if (!names.ok() && names.error().kind() != ErrorKind::kNotFound) throw names.error();
  if (!names.ok()) return records;
  for (const std::string& name : names.value()) {
    if (name.starts_with('.')) continue;
    if (auto record = read_record(join_path(folder_, name))) records.push_back(std::move(*record));
  }
  std::ranges::stable_sort(records, {}, &JobRecord::submitted);
  return records;
}

void JobStore::remove(const JobRecord& record) const {
  local_file_system().remove_tree(record.folder).value();
}

void JobStore::put_aside(const JobRecord& record) const {
  remove_aside(record);
  local_file_system().rename(record.folder, place_aside(folder_, record)).value();
}

void JobStore::bring_back(const JobRecord& record) const {
  local_file_system().rename(place_aside(folder_, record), record.folder).value();
}

void JobStore::remove_aside(const JobRecord& record) const {
  local_file_system().remove_tree(place_aside(folder_, record)).value();
}

}  // namespace muster::inline v0_1::jobs
