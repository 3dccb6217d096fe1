#include "muster/jobs/submit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/file_system.h"
#include "muster/base/local_path.h"
#include "muster/base/log.h"
#include "muster/base/regular_file.h"
#include "muster/base/secret.h"
#include "muster/jobs/commands.h"
#include "muster/jobs/final_status.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/jobs/same_job.h"
#include "muster/jobs/search_job.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {
namespace {

// A process that trains in the directory holds a lock on the file .lock, which contains its name.
// Returns "" if no process does.
std::string trains_in(const std::string& job_dir) {
  const auto local = local_path(job_dir);
  if (!local.ok()) return "";
  const std::string path = join_path(local.value(), ".lock");
  Result<FileDescriptor> opened = open_regular_file(path, O_RDONLY | O_NOFOLLOW);
  if (!opened.ok()) return "";
  const FileDescriptor file = std::move(opened).value();
  // Shared, and only for a moment: a program that begins just now waits for it.
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return "";
  std::array<char, 256> text;
  const ssize_t count = pread(file.get(), text.data(), text.size(), 0);
  return count > 0 ? std::string(text.data(), static_cast<size_t>(count)) : "another program";
}

std::string command_of(const JobSpec& job) {
  std::string line;
  const std::vector<std::string> words =
      job.pools.empty() ? job.program : words_of(job, job.pools.front());
  for (const std::string& word : words) {
    line += (line.empty() ? "" : " ") + launch::shell_quoted(word);
  }
  return line;
}

// The name that an image has without its registry, its tag and its digest: "leaf" of
// "host:5000/team/leaf:latest".
std::string name_of_image(const std::string& image) {
  const std::string name(base_name(image.substr(0, image.find('@'))));
  return name.substr(0, name.find(':'));
}

std::string stem_of(const JobSpec& job) {
  if (!job.program.empty()) return std::string(base_name(job.program.front()));
  return job.pools.empty() || job.pools.front().image.empty()
             ? "job"
             : name_of_image(job.pools.front().image);
}

void fill(JobRecord& record, const Target& target, JobSpec& job) {
  job.name = record.name;
  record.target = target.name();
  record.job_dir = job.job_dir.empty() ? "" : plain_dir(job.job_dir);
  record.command = command_of(job);
  record.commands = commands_of(job);
}

constexpr const char* kSubmitting = "submitting.lock";  // in the folder of a record

// The file of a lock, which is made if it does not exist.
FileDescriptor open_lock_file(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) throw from_errno(errno, "cannot open " + path);
  return file;
}

// Returns whether the lock was free. Processes that only look share it (LOCK_SH).
bool take(const FileDescriptor& file, const std::string& path, int kind = LOCK_EX) {
  while (flock(file.get(), kind | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return false;
    throw from_errno(errno, "cannot lock " + path,
                     "keep records of jobs on a file system with locks: set XDG_STATE_HOME");
  }
  return true;
}

// Holds the store while a record is added: others do so in milliseconds.
FileDescriptor lock_store(const JobStore& store) {
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds kMost{30};
  constexpr std::chrono::milliseconds kLook{5};
  local_file_system().make_directories(store.folder()).value();
  const std::string path = join_path(store.folder(), ".lock");
  FileDescriptor file = open_lock_file(path);
  for (const auto end = steady_clock::now() + kMost; !take(file, path);) {
    if (steady_clock::now() > end) {
      throw Error(ErrorKind::kUnavailable,
                  fmt::format("{} has been held by another process for {} s", path, kMost.count()),
                  "is another muster submit stopped? end it, and try again");
    }
    std::this_thread::sleep_for(kLook);
  }
  return file;
}

[[noreturn]] void throw_taken(const std::string& job_dir, const JobRecord& record,
                              const std::string& how, const std::string& otherwise) {
  throw invalid_argument(
      fmt::format("the job directory {} is that of the job {}, {}", job_dir, record.name, how),
      fmt::format("give this job another --job-dir, or {}", otherwise));
}

// A job of this machine begins within moments, or, if its submission was killed meanwhile, not at
// all: a process that looks just then waits until one of both is certain.
void wait_for_begin(const JobRecord& record, const StatusOf& status_of) {
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds kMost{2};
  constexpr std::chrono::milliseconds kLook{5};
  const auto begins = [&] {
    return is_being_submitted(record) || status_of(record).state == JobState::kQueued;
  };
  if (record.target != "local") return;
  for (const auto end = steady_clock::now() + kMost; begins() && steady_clock::now() < end;)
    std::this_thread::sleep_for(kLook);
}

// Throws for a job that may have been there since the submission of one before did not end.
void check_same_command(const JobStore& store, const JobRecord& wanted, const StatusOf& status_of) {
  for (const JobRecord& record : store.list()) {
    if (!same_job(record, wanted) || was_submitted(record) || is_being_submitted(record)) continue;
    const JobState state = status_of(record).state;
    throw invalid_argument(
        fmt::format("the job {} is of the same command, and its submission to {} did not end: {}",
                    record.name, record.target,
                    state == JobState::kUnknown
                        ? "it is not there, and may still come"
                        : fmt::format("it is there, and {}", to_string(state))),
        state == JobState::kUnknown
            ? fmt::format("wait for some minutes, and look: muster jobs status {0}; muster jobs "
                          "remove {0} forgets it",
                          record.name)
            : fmt::format("follow it: muster jobs logs --follow {}; the same command again submits "
                          "another job",
                          record.name));
  }
}

// Distinguishes a record from a later one of the same name.
std::string key_of(const JobRecord& record) { return record.name + " " + record.submission; }

std::optional<JobRecord> record_of(const JobStore& store, const std::string& name) {
  const std::vector<JobRecord> records = store.list();
  const auto found = std::ranges::find(records, name, &JobRecord::name);
  return found == records.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::string new_submission() {
  // A letter first, as labels want it; short enough not to be taken for a secret.
  return "s" + random_secret().substr(0, 30);
}

bool was_submitted(const JobRecord& record) {
  return !record.id.empty() || record.target == "local";
}

bool is_being_submitted(const JobRecord& record) {
  const std::string path = join_path(record.folder, kSubmitting);
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return file.is_open() && !take(file, path, LOCK_SH);
}

bool find_submitted(JobStore& store, Target& target, JobRecord& record) {
  if (was_submitted(record)) return true;
  if (is_being_submitted(record) || !target.recognise(record)) return false;
  const auto now = record_of(store, record.name);
  if (now && key_of(*now) == key_of(record)) store.save(record);
  return true;
}

void check_job_dir(const JobStore& store, const std::string& job_dir, const StatusOf& status_of) {
  if (job_dir.empty()) return;
  for (const JobRecord& record : store.list()) {
    if (!same_dir(record, job_dir)) continue;
    wait_for_begin(record, status_of);
    if (is_being_submitted(record)) {
      throw_taken(job_dir, record, "which is being submitted now",
                  "look at that one: muster jobs status " + record.name);
    }
    const JobStatus status = status_of(record);
    const JobState state = status.state;
    if (state == JobState::kUnknown && !was_submitted(record)) {
      throw_taken(job_dir, record, fmt::format("whose submission to {} did not end", record.target),
                  fmt::format("look whether that one is there: muster jobs status {0}; muster jobs "
                              "remove {0} forgets it",
                              record.name));
    }
    if (state == JobState::kUnknown && !status.forgotten) {
      throw_taken(
          job_dir, record,
          fmt::format("of which {} does not tell how it is{}{}", record.target,
                      status.detail.empty() ? "" : ": ", status.detail),
          fmt::format("wait, and try again; muster jobs remove {} forgets that one, or says "
                      "how",
                      record.name));
    }
    if (status.left > 0) {
      throw_taken(
          job_dir, record,
          fmt::format("which has ended, and {} of its trials may run on", status.left),
          fmt::format("wait for their end, or end them: muster jobs cancel {}", record.name));
    }
    if (is_final(state) && tasks_go_on(status)) {
      throw_taken(job_dir, record,
                  fmt::format("which has ended as {}, and tasks of it are still there on {}",
                              to_string(state), record.target),
                  "end them: muster jobs cancel " + record.name);
    }
    if (!goes_on(state)) continue;
    throw_taken(job_dir, record, fmt::format("which is {} on {}", to_string(state), record.target),
                state == JobState::kEnding
                    ? "wait until its tasks have saved: muster jobs status " + record.name
                    : "end that one: muster jobs cancel " + record.name);
  }
  if (const std::string who = trains_in(job_dir); !who.empty()) {
    throw invalid_argument(fmt::format("the job directory {} is in use by {}", job_dir, who),
                           "give this job another --job-dir, or wait for that program to end");
  }
}

JobRecord preview_job(const JobStore& store, const Target& target, JobSpec& job) {
  JobRecord record = store.preview(job.name, stem_of(job));
  fill(record, target, job);
  return record;
}

namespace {

// The record with the name of `wanted`, if its job has ended, or is known nowhere any more, and was
// the same one: the same command, target and job directory. A search continues in its own way.
std::optional<JobRecord> ended_before(const JobStore& store, const Target& target,
                                      const JobRecord& wanted, const StatusOf& status_of) {
  const auto before = record_of(store, wanted.name);
  if (!before || !same_job(*before, wanted) || is_search(*before) || is_being_submitted(*before))
    return std::nullopt;
  JobStatus status = status_of(*before);
  // The component that keeps the names of ended jobs may have forgotten this one since.
  if (const auto end = final_status(*before); end && !end->forgotten && !target.frees_names())
    status = recheck_status(*before, *end, [&] { return status_of(*before); });
  const bool ended = target.frees_names() && is_final(status.state);
  return ended || status.forgotten ? before : std::nullopt;
}

}  // namespace

namespace {

// Throws if the name is taken, and names the differences to the job that has it.
void check_name(const JobStore& store, const std::string& name, const JobRecord& wanted) {
  try {
    store.check_free(name);
  } catch (const Error& error) {
    const auto there = record_of(store, name);
    const std::string what = there ? difference(*there, wanted) : "";
    if (what.empty()) throw;
    throw error.with_detail(what);
  }
}

}  // namespace

std::optional<std::string> reason_of(const std::function<void()>& check) {
  try {
    check();
    return std::nullopt;
  } catch (const Error& error) {
    return error.message() + "; " + error.hint();
  }
}

std::vector<std::string> reasons_against(const JobStore& store, const Target& target, JobSpec job,
                                         const StatusOf& status_of) {
  std::vector<std::string> reasons;
  JobSpec copy = job;
  const auto check = [&](const std::function<void()>& act) {
    if (auto reason = reason_of(act)) reasons.push_back(std::move(*reason));
  };
  const JobRecord wanted = preview_job(store, target, copy);
  if (!ended_before(store, target, wanted, status_of))
    check([&] { check_name(store, job.name, wanted); });
  check([&] { check_job_dir(store, job.job_dir, status_of); });
  check([&] { check_same_command(store, wanted, status_of); });
  return reasons;
}

namespace {

std::set<std::string> keys_of(const JobStore& store) {
  std::set<std::string> keys;
  for (const JobRecord& record : store.list()) keys.insert(key_of(record));
  return keys;
}

// Throws when another process has taken the directory since `known` was read.
void check_still_free(const JobStore& store, const std::string& job_dir,
                      const std::set<std::string>& known) {
  for (const JobRecord& record : store.list()) {
    if (known.contains(key_of(record)) || !same_dir(record, job_dir)) continue;
    throw_taken(job_dir, record, "which was submitted just now",
                "look at that one: muster jobs status " + record.name);
  }
}

// Fills in the record, and saves it while it is locked.
Claim complete_claim(JobStore& store, JobRecord record, Clock& clock,
                     const std::function<void(JobRecord&)>& complete) {
  Claim made{.record = std::move(record)};
  made.record.submitted = clock.wall_seconds();
  made.record.submission = new_submission();
  complete(made.record);
  const std::string path = join_path(made.record.folder, kSubmitting);
  made.lock = open_lock_file(path);
  take(made.lock, path);
  // If the process is killed from now on, this record remains. By it the job is found and the name
  // freed.
  store.save(made.record);
  return made;
}

// Takes the record of a job back that does not exist, and restores the earlier record of its name.
void take_back(const JobStore& store, const Claim& claim) {
  // Held, so that no other process takes the name in between.
  const FileDescriptor held = lock_store(store);
  store.remove(claim.record);
  if (claim.before) store.bring_back(*claim.before);
}

}  // namespace

Claim claim_job(JobStore& store, const Target& target, JobSpec& job, Clock& clock,
                const StatusOf& status_of, const std::function<void(JobRecord&)>& complete) {
  const std::set<std::string> known = keys_of(store);
  check_job_dir(store, job.job_dir, status_of);
  JobSpec copy = job;
  const JobRecord wanted = preview_job(store, target, copy);
  check_same_command(store, wanted, status_of);
  const auto before = ended_before(store, target, wanted, status_of);
  const FileDescriptor held = lock_store(store);
  check_still_free(store, job.job_dir, known);
  const bool gives_way = before && record_of(store, before->name) == before;
  if (gives_way) {
    store.put_aside(*before);
  } else {
    check_name(store, job.name, wanted);
  }
  std::optional<JobRecord> record;
  try {
    record = store.add(job.name, stem_of(job));
    fill(*record, target, job);
    Claim claim = complete_claim(store, *record, clock, complete);
    if (gives_way) claim.before = before;
    return claim;
  } catch (...) {
    if (record) store.remove(*record);
    if (gives_way) store.bring_back(*before);
    throw;
  }
}

void forget_earlier(const JobStore& store, const Claim& claim) {
  if (!claim.before) return;
  store.remove_aside(*claim.before);
  log::info(fmt::format("the same job {} had ended: its record and its logs gave way to this one",
                        claim.before->name));
}

Claim claim_again(JobStore& store, JobRecord record, const JobSpec& job, Clock& clock,
                  const StatusOf& status_of, const std::function<void(JobRecord&)>& complete) {
  const std::set<std::string> known = keys_of(store);
  check_job_dir(store, job.job_dir, status_of);
  const FileDescriptor held = lock_store(store);
  check_still_free(store, job.job_dir, known);
  if (!record_of(store, record.name)) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("the job {} was forgotten just now by another command", record.name),
                "the same command again begins with a new record");
  }
  return complete_claim(store, std::move(record), clock, complete);
}

JobRecord submit_job(JobStore& store, Target& target, JobSpec job, Clock& clock,
                     const StatusOf& status_of) {
  Claim claimed = claim_job(store, target, job, clock, status_of,
                            [&](JobRecord& record) { target.locate(job, record); });
  JobRecord& record = claimed.record;
  try {
    target.submit(job, record);
  } catch (const UnclearSubmission&) {
    record.id.clear();
    store.save(record);
    forget_earlier(store, claimed);
    throw;
  } catch (...) {
    take_back(store, claimed);
    throw;
  }
  store.save(record);
  forget_earlier(store, claimed);
  return record;
}

void forget_job(const JobStore& store, const JobRecord& record) {
  const FileDescriptor held = lock_store(store);
  const JobRecord now = store.find(record.name);
  // A process that runs a search, or cancels the rest of one, holds its folder.
  const FileDescriptor kept = is_search(now) ? internal::lock_folder(now.folder) : FileDescriptor();
  if (key_of(now) != key_of(record) || is_being_submitted(now) ||
      (is_search(now) && !kept.is_open())) {
    throw Error(ErrorKind::kUnavailable,
                fmt::format("another command is at work on the job {}", now.name),
                fmt::format("look how it is: muster jobs status {}", now.name));
  }
  store.remove(now);
  // As where a submission under the same name was killed.
  store.remove_aside(now);
}

}  // namespace muster::inline v0_1::jobs
