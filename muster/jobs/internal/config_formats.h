// The formats of configurations, each read by a function of its own; job_config.cc determines the
// format of a file. The functions note mistakes in the file, so that all of them are reported at
// once. Thread safety: pure functions.
#pragma once

#include "muster/jobs/config_fields.h"
#include "muster/jobs/config_file.h"
#include "muster/jobs/job_config.h"

namespace muster::inline v0_1::jobs::internal {

// `root` is the whole file; with `bare` it is the body of trainingInput.
JobConfig read_ai_platform(const ConfigFile& file, const ConfigValue& root, bool bare);

enum class VertexKind { kCustomJob, kJobSpec, kTuningJob };
JobConfig read_vertex(const ConfigFile& file, const ConfigValue& root, VertexKind kind);

// Notes the faults that check_search() finds, at the place of the parameter, of which `places` has
// one each, or else, if no mistake was noted since there were `before` mistakes, at `key`.
void check_search_at(const HyperParameterSearch& search, const ConfigFields& fields,
                     const std::string& key, const std::vector<ConfigPlace>& places, size_t before);

// How many trials a key asks for: 1 if it is missing. Notes a mistake for less than one.
int count_of_trials(const ConfigFields& fields, const std::string& key);

// The most tasks of one pool.
constexpr int kMostTasks = 4096;

}  // namespace muster::inline v0_1::jobs::internal
