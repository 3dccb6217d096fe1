#include "muster/jobs/same_job.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "muster/base/local_path.h"
#include "muster/jobs/commands.h"

namespace muster::inline v0_1::jobs {
namespace {

// With links followed, as far as the directory exists.
std::string real_dir(const std::string& job_dir) {
  const std::string plain = plain_dir(job_dir);
  if (!plain.starts_with('/')) return plain;
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::weakly_canonical(plain, ignored);
  return ignored ? plain : real.string();
}

bool same_commands(const JobRecord& one, const JobRecord& other) {
  // Records of earlier versions have the command for people alone.
  return one.commands.empty() || other.commands.empty() ? one.command == other.command
                                                        : one.commands == other.commands;
}

std::string difference_of_commands(const JobRecord& there, const JobRecord& wanted) {
  if (there.commands.empty() || wanted.commands.empty()) return "it runs " + there.command;
  const std::vector<std::string> its = words_not_in(wanted.commands, there.commands);
  const std::vector<std::string> ours = words_not_in(there.commands, wanted.commands);
  if (its.empty() && ours.empty()) return "it has the same words in another order";
  if (ours.empty()) return fmt::format("it has {}, and this one has not", quoted(its));
  if (its.empty()) return fmt::format("this one has {}, and it has not", quoted(ours));
  return fmt::format("it has {} where this one has {}", quoted(its), quoted(ours));
}

}  // namespace

std::string plain_dir(const std::string& job_dir) {
  const auto local = local_path(job_dir);
  std::string text =
      local.ok() ? std::filesystem::absolute(local.value()).lexically_normal().string() : job_dir;
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool same_dir(const JobRecord& record, const std::string& job_dir) {
  return !record.job_dir.empty() && !job_dir.empty() &&
         real_dir(record.job_dir) == real_dir(job_dir);
}

bool same_job(const JobRecord& one, const JobRecord& other) {
  return one.target == other.target && same_commands(one, other) &&
         (one.job_dir == other.job_dir || same_dir(one, other.job_dir));
}

std::string difference(const JobRecord& there, const JobRecord& wanted) {
  if (there.target != wanted.target)
    return fmt::format("it is of {}, and this one of {}", there.target, wanted.target);
  if (!same_commands(there, wanted)) return difference_of_commands(there, wanted);
  if (same_job(there, wanted)) return "";
  const auto dir_of = [](const JobRecord& record) {
    return record.job_dir.empty() ? "none" : record.job_dir;
  };
  return fmt::format("its job directory is {}, and that of this one {}", dir_of(there),
                     dir_of(wanted));
}

}  // namespace muster::inline v0_1::jobs
