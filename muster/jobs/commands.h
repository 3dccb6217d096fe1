// The commands of a job, as words that can be compared. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

// Command lines, each word by word.
using Commands = std::vector<std::vector<std::string>>;

// The commands of each role of a job, each command once, without the job directory. If the program
// is in the image, the image is named.
Commands commands_of(const JobSpec& job);

// As a shell takes them: the words of one command with spaces between, and of several "a; b".
std::string quoted(const std::vector<std::string>& words);
std::string quoted(const Commands& commands);

// The words of `some` that are not in `others`, each as often as it is missing there.
std::vector<std::string> words_not_in(const Commands& others, const Commands& some);

}  // namespace muster::inline v0_1::jobs
