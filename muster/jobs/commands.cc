#include "muster/jobs/commands.h"

#include <algorithm>
#include <set>

#include "muster/base/strings.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {

Commands commands_of(const JobSpec& job) {
  JobSpec plain = job;
  plain.job_dir.clear();
  Commands commands;
  for (const Pool& pool : plain.pools) {
    std::vector<std::string> words = words_of(plain, pool);
    if (plain.program.empty() && !pool.image.empty()) words.insert(words.begin(), pool.image);
    if (std::ranges::find(commands, words) == commands.end()) commands.push_back(std::move(words));
  }
  return commands;
}

std::string quoted(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) all.push_back(launch::shell_quoted(word));
  return join(all, " ");
}

std::string quoted(const Commands& commands) {
  std::vector<std::string> all;
  for (const auto& words : commands) all.push_back(quoted(words));
  return join(all, "; ");
}

std::vector<std::string> words_not_in(const Commands& others, const Commands& some) {
  std::multiset<std::string> known;
  for (const auto& words : others) known.insert(words.begin(), words.end());
  std::vector<std::string> missing;
  for (const auto& words : some) {
    for (const std::string& word : words) {
      if (const auto it = known.find(word); it != known.end()) {
        known.erase(it);
      } else {
        missing.push_back(word);
      }
    }
  }
  return missing;
}

}  // namespace muster::inline v0_1::jobs
