#include "muster/jobs/search_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/jobs/search_report.h"
#include "muster/jobs/search_run.h"
#include "muster/jobs/submit.h"
#include "muster/jobs/target_trials.h"
#include "muster/stores/file_systems.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr const char* kSearch = "search";  // of JobRecord::details

std::string summary_of(const Search& search, const JobSpec& job) {
  if (!search.done()) return "the search is interrupted; the same command goes on with it";
  std::string text;
  if (!search.gave_up().empty()) text = search.gave_up() + "\n";
  if (const Trial* best = search.best()) {
    text += fmt::format("the best is trial {}, in {}\n", best->number,
                        join_path(job.job_dir, std::to_string(best->number)));
  } else {
    text += "no trial has measured anything\n";
  }
  return text + "the picture is " + join_path(job.job_dir, "search.svg");
}

}  // namespace

SearchJobResult run_search_job(JobStore& store, Target& target, JobSpec job, Clock& clock,
                               const SearchJobOptions& options) {
  internal::LocalState state{.status = {.state = JobState::kRunning},
                             .keeper = internal::keeper_of(getpid())};
  FileDescriptor lock;
  const JobRecord record =
      claim_job(store, target, job, clock, options.status_of, [&](JobRecord& made) {
        made.id = std::to_string(getpid());
        made.details[kSearch] = fmt::format("{} trials", job.search ? job.search->max_trials : 0);
        lock = internal::lock_folder(made.folder);
        internal::write_state(made.folder, state);
      }).record;
  const auto finish = [&](JobState how, int code, const std::string& detail) {
    state.status = {.state = how, .exit_code = code, .detail = detail};
    internal::write_state(record.folder, state);
  };
  try {
    TargetTrials trials(target, record, clock);
    const Search search = run_search(job, trials, stores::file_systems(), clock,
                                     {.seed = options.seed, .interrupted = options.interrupted});
    SearchJobResult result{.table = search.trials().empty() ? "" : search_table(search),
                           .summary = summary_of(search, job)};
    const std::string first(result.summary.substr(0, result.summary.find('\n')));
    if (!search.done()) {
      result.exit_code = 130;
      finish(JobState::kCancelled, result.exit_code, first);
    } else {
      result.exit_code = search.best() == nullptr ? 1 : 0;
      finish(result.exit_code == 0 ? JobState::kSucceeded : JobState::kFailed, result.exit_code,
             first);
    }
    return result;
  } catch (const Error& error) {
    finish(JobState::kFailed, exit_code(error.kind()), error.message());
    throw;
  }
}

bool is_search(const JobRecord& record) { return record.details.contains(kSearch); }

JobStatus search_status(const JobRecord& record) {
  const bool kept = internal::is_kept(record.folder);
  const auto state = internal::read_state(record.folder);
  if (!state) return {.detail = "it never began"};
  JobStatus status = state->status;
  if (kept || is_final(status.state)) return status;
  if (!internal::is_here(state->keeper)) {
    status.state = JobState::kUnknown;
    status.detail = fmt::format("it runs on {}, where it can be asked for", state->keeper.host);
    return status;
  }
  status.state = JobState::kFailed;
  status.detail = "the process that ran the search is gone; the same command goes on with it";
  return status;
}

void cancel_search(const JobRecord& record) {
  const auto state = internal::read_state(record.folder);
  if (!state || is_final(state->status.state)) return;
  internal::check_is_here(state->keeper, record.name);
  if (!internal::is_kept(record.folder)) return;
  internal::end_keeper(state->keeper);
}

}  // namespace muster::inline v0_1::jobs
