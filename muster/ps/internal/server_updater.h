// Updates that parameter servers make: gradients of this worker go there, weights come back.
// Thread safety: belongs to the worker's thread.
#pragma once

#include <memory>

#include "muster/distribute/updater.h"
#include "muster/ps/internal/worker_run.h"

namespace muster::inline v0_1::ps {

// `together`: several workers make an update.
std::unique_ptr<distribute::Updater> make_server_updater(std::unique_ptr<WorkerRun> run,
                                                         bool together);

}  // namespace muster::inline v0_1::ps
