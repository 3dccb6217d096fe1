#include "muster/jobs/submit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/file_system.h"
#include "muster/base/local_path.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {
namespace {

// The same text for all ways to write a directory of this machine; a URI as it is, without a slash
// at its end.
std::string normal(const std::string& job_dir) {
  const auto local = local_path(job_dir);
  std::string text =
      local.ok() ? std::filesystem::absolute(local.value()).lexically_normal().string() : job_dir;
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

// Who trains in the directory holds a lock on the file .lock, which says who that is. Returns ""
// when nobody does.
std::string trains_in(const std::string& job_dir) {
  const auto local = local_path(job_dir);
  if (!local.ok()) return "";
  const std::string path = join_path(local.value(), ".lock");
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) return "";
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

std::string stem_of(const JobSpec& job) {
  if (!job.program.empty()) return std::string(base_name(job.program.front()));
  return job.pools.empty() || job.pools.front().image.empty()
             ? "job"
             : std::string(base_name(job.pools.front().image));
}

void fill(JobRecord& record, const Target& target, JobSpec& job) {
  job.name = record.name;
  record.target = target.name();
  record.job_dir = job.job_dir.empty() ? "" : normal(job.job_dir);
  record.command = command_of(job);
}

}  // namespace

void check_job_dir(const JobStore& store, const std::string& job_dir, const StatusOf& status_of) {
  if (job_dir.empty()) return;
  for (const JobRecord& record : store.list()) {
    if (record.job_dir.empty() || normal(record.job_dir) != normal(job_dir)) continue;
    const JobState state = status_of(record).state;
    if (state != JobState::kQueued && state != JobState::kRunning) continue;
    throw invalid_argument(
        fmt::format("the job directory {} is that of the job {}, which is {} on {}", job_dir,
                    record.name, to_string(state), record.target),
        fmt::format("give this job another --job-dir, or end that one: muster jobs cancel {}",
                    record.name));
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

JobRecord submit_job(JobStore& store, Target& target, JobSpec job, Clock& clock) {
  JobRecord record = store.add(job.name, stem_of(job));
  fill(record, target, job);
  record.submitted = clock.wall_seconds();
  try {
    // Whoever is killed meanwhile leaves this, by which the name can be freed.
    store.save(record);
    target.submit(job, record);
  } catch (...) {
    store.remove(record);
    throw;
  }
  store.save(record);
  return record;
}

}  // namespace muster::inline v0_1::jobs
