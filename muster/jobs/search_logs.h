// The logs of a search's trials as one. Thread safety: one call at a time.
#pragma once

#include <functional>
#include <memory>

#include "muster/jobs/job_record.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// Passes on the lines of the trials' logs, each with its trial's name in front: "[trial-3] line".
// `options.task` chooses a trial ("trial-3"), or a task of one ("trial-3/worker-0"); `options.tail`
// counts for each trial. With `options.follow` it continues, also with trials that begin later,
// until the search and its trials have ended. `make_target` makes the search's target: each trial
// that is followed is read by a thread with a target of its own, and `sink` is called by one thread
// at a time. Throws NotFound, with the nearest name, for a trial that has not begun; if several are
// followed, an error of reading one trial is a line in its place.
void search_logs(const JobRecord& search,
                 const std::function<std::unique_ptr<Target>()>& make_target,
                 const LogOptions& options, const LogSink& sink);

}  // namespace muster::inline v0_1::jobs
