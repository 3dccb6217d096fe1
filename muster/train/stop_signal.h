// Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 as a request to stop: training saves a checkpoint all workers
// agree on and ends. Schedulers send SIGUSR1 before a job's time is over; a task that gets it ends
// with 138, which asks to be started again. Thread safety: any thread may ask.
#pragma once

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// From now on SIGINT, SIGTERM, SIGUSR1 and SIGHUP set stop_signal(); a second SIGINT ends the
// process at once with exit code 130. SIGHUP, which nohup has ignored, counts as SIGTERM.
void install_stop_handlers();
// The signal that asked this process to stop (SIGINT, SIGTERM, SIGUSR1); 0 while there is none.
MUSTER_PART_EXPORT int stop_signal();
// "Ctrl-C", "SIGTERM", "SIGHUP" or "SIGUSR1", as messages call it; "its program" while there is
// none.
MUSTER_PART_EXPORT const char* stop_signal_name();
// Forgets the request; for programs that train again, and tests.
void clear_stop_signal();

}  // namespace muster::inline v0_1
