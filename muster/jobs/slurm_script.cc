#include "muster/jobs/slurm_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {
namespace {

std::string name_of(const std::string& flag) { return flag.substr(0, flag.find('=')); }

// The state of several jobs under one number cannot be known, nor that of a job that this cluster's
// controller does not know. `where` it was said: "in --slurm".
void check_one_job(const std::string& flag, const std::string& where) {
  if (name_of(flag) == "--array") {
    throw invalid_argument(
        fmt::format("'{}' {} would make several jobs of one", flag, where),
        "submit a job for each, with a different --job-dir: for i in 0 1 2; do muster submit "
        "--job-dir=runs/$i ...; done; to try values, use a search: add hyperparameters to the "
        "configuration (docs/hyperparameters.md)");
  }
  if (name_of(flag) == "--clusters" || name_of(flag) == "--cluster") {
    throw invalid_argument(
        fmt::format("'{}' {} is for another cluster, where the job could not be asked for", flag,
                    where),
        "leave it out, and submit from a login node of that cluster");
  }
}

void check_flag(const std::string& flag) {
  if (!flag.starts_with("--") || flag.size() == 2 || flag.find('\n') != std::string::npos) {
    throw invalid_argument(fmt::format("'{}' in --slurm is not a flag of sbatch", flag),
                           "write long flags, with two dashes and '=', and blanks between them: "
                           "--slurm='--partition=gpu --account=lab'");
  }
  check_one_job(flag, "in --slurm");
}

std::string clock_time(int64_t seconds) {
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

// The accelerators of a task. All tasks of a step are alike, so servers have them too.
int accelerators_of(const JobSpec& job) {
  int most = 0;
  for (const Pool& pool : job.pools) most = std::max(most, pool.accelerator.count);
  return most;
}

// The path as a value of --output: Slurm has words of its own for what follows a '%', and ends the
// value at a blank outside of quotes.
std::string output_path(const std::string& path) {
  std::string text;
  bool plain = true;
  for (const char c : path) {
    if (c == '%') text += '%';
    if (c == '"' || c == '\\') text += '\\';
    plain = plain && std::string_view(" \t'\"\\#").find(c) == std::string_view::npos;
    text += c;
  }
  return plain ? text : '"' + text + '"';
}

class Header {
 public:
  explicit Header(const std::vector<std::string>& flags) : flags_(flags) {}

  // Adds the mark by which the job is found, after what the user has to say.
  void add_comment(const std::string& mark) {
    if (mark.empty()) return;
    std::string comment = mark;
    for (const std::string& given : flags_) {
      const size_t equals = given.find('=');
      if (is_comment(given) && equals != std::string::npos)
        comment = given.substr(equals + 1) + kSlurmCommentEnd + mark;
    }
    comment_ = "#SBATCH --comment=" + comment + "\n";
  }
  // Adds a flag, unless the user gave it, or one of `instead`.
  void add(const std::string& flag, const std::vector<std::string>& instead = {}) {
    for (const std::string& given : flags_) {
      const std::string name = name_of(given);
      if (name == name_of(flag) || std::ranges::find(instead, name) != instead.end()) return;
    }
    text_ += "#SBATCH " + flag + "\n";
  }
  std::string text() const {
    std::string all = text_;
    for (const std::string& flag : flags_) {
      if (comment_.empty() || !is_comment(flag)) all += "#SBATCH " + flag + "\n";
    }
    return all + comment_;
  }

 private:
  static bool is_comment(const std::string& flag) { return name_of(flag) == "--comment"; }

  const std::vector<std::string>& flags_;
  std::string text_, comment_;
};

// A limit of the job's time over all its starts. {0} seconds; {1} so many before the end tasks are
// told; {2} between looks.
constexpr const char* kTimeLimit = R"sh(
# The job may run for {0} s, however often it is started: what it has run for stands in a file.
used=$(cat "$folder/ran" 2>/dev/null || echo 0)
began=$(date +%s)
ran() {{ echo $((used + $(date +%s) - began)); }}
note() {{ ran > "$folder/ran.new" && mv "$folder/ran.new" "$folder/ran"; }}
# By their numbers: to kill the job would be to cancel it, this script too.
kill_steps() {{
  for each in $(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i); do
    case ${{each#*.}} in *[!0-9]*) ;; *) scancel --signal=KILL "$each" ;; esac
  done
}}
# Counts, so that it is known however this start ends, and tells the tasks near the end.
count() {{
  told=
  exec {{never}}<> <(:)
  while kill -0 $$ 2>/dev/null; do
    note  # on a full disk it cannot, and the time goes on
    if [ "$(ran)" -ge {0} ]; then
      kill_steps
    elif [ -z "$told" ] && [ "$(ran)" -ge $(({0} - {1})) ]; then
      told=1
      scancel --signal=USR1 "$SLURM_JOB_ID"
    fi
    read -rt {2} -u "$never"
  done
}}
end_when_less_is_left_than() {{
  [ "$(ran)" -ge $(({0} - $1)) ] || return 0
  echo "the job has run for its {0} s, the most it may: it ends"
  echo {0} > "$folder/time_over"
  code=124
  exit 124
}}
end_when_less_is_left_than {1}
count &
counter=$!
trap 'kill $counter; wait $counter; note; echo $code > "$folder/exit_code"' EXIT
)sh";

// {0} folder, {1} muster, {2} how srun treats a task that fails, {3} restarts, {4} kTimeLimit or
// nothing, {5} a line after a step.
constexpr const char* kBody = R"sh(
folder={0}
rm -f "$folder/exit_code" "$folder/failed" "$folder/time_over" "$folder/end.json"
code=1
trap 'echo $code > "$folder/exit_code"' EXIT
{4}# What Slurm ends it decides about: this script only waits for the step then.
stopped=
trap 'stopped=1' TERM

for attempt in $(seq 0 {3}); do
  srun --mpi=none --distribution=block --kill-on-bad-exit={2} --unbuffered \
    {1} jobs task "$folder" "$attempt" &
  step=$!
  # A signal ends a wait; the step goes on.
  until wait $step; code=$?; ! kill -0 $step 2>/dev/null; do :; done
  [ $code = 0 ] && exit 0
  if [ -n "$stopped" ]; then exit $code; fi
  # A failure that will come again.
  if read -r failure task 2>/dev/null < "$folder/failed"; then
    code=$failure
    echo "$task failed with exit code $code"
    exit $code
  fi
{5}  # The time is over in less than three minutes: the tasks have saved.
  case $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%L) in
    [0-2]:[0-5][0-9])
      echo "the time is over: back into the queue"
      if scontrol requeue "$SLURM_JOB_ID"; then sleep 60; fi
      exit $code
      ;;
  esac
  [ "$attempt" = {3} ] || echo "exit code $code: starting all tasks again ($((attempt + 1)) of {3})"
done
exit $code
)sh";

constexpr int64_t kSlurmTells = 90;  // seconds before its end, as --signal says
constexpr int64_t kShort = 600;

std::string time_limit(int64_t most) {
  if (most <= 0) return "";
  return fmt::format(fmt::runtime(kTimeLimit), most, std::min(kSlurmTells, most / 4),
                     std::clamp<int64_t>(most / 20, 1, 5));
}

std::string after_step(int64_t most) {
  if (most <= 0) return "";
  // Slurm looks once a minute, so it may tell tasks 150 s before the end; they have saved then, and
  // what is left is not worth another start.
  return fmt::format("  end_when_less_is_left_than {}\n", std::min<int64_t>(180, most / 2));
}

}  // namespace

void check_sbatch_variables(const Environment& environment) {
  for (const auto& [variable, flag] :
       {std::pair{"SBATCH_ARRAY_INX", "--array="}, std::pair{"SBATCH_CLUSTERS", "--clusters="},
        std::pair{"SLURM_CLUSTERS", "--clusters="}}) {
    const std::string value = environment.get_or(variable, "");
    if (!value.empty()) check_one_job(flag + value, fmt::format("of {}", variable));
  }
}

std::string slurm_script(const JobSpec& job, const SlurmScriptOptions& options) {
  for (const std::string& flag : options.flags) check_flag(flag);
  Header header(options.flags);
  header.add("--job-name=" + job.name);
  header.add(fmt::format("--ntasks={}", tasks_of(job).size()));
  header.add("--output=" + output_path(join_path(options.folder, kSlurmBatchLog)), {"--error"});
  header.add("--open-mode=append");
  header.add_comment(options.comment);
  header.add("--requeue", {"--no-requeue"});
  // Without B: it goes to the tasks, not to this script.
  header.add("--signal=USR1@90");
  if (const int64_t most = job.scheduling.max_running_seconds; most > 0) {
    // Of short limits the script alone tells the tasks.
    header.add("--time=" + clock_time(most < kShort ? most + 2 * kSlurmTells : most));
  }
  if (const int count = accelerators_of(job); count > 0) {
    header.add(fmt::format("--gpus-per-task={}", count),
               {"--gres", "--gpus", "--gpus-per-node", "--gpus-per-socket"});
  }
  // Where one task may be lost and come back, the others go on.
  const bool servers = job.pool("ps") != nullptr;
  return "#!/bin/bash\n" + header.text() +
         fmt::format(fmt::runtime(kBody), launch::shell_quoted(options.folder),
                     launch::shell_quoted(options.muster), servers ? 0 : 1, job.scheduling.restarts,
                     time_limit(job.scheduling.max_running_seconds),
                     after_step(job.scheduling.max_running_seconds));
}

}  // namespace muster::inline v0_1::jobs
