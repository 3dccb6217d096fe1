// Tells the others of a run that this task will not come. Thread safety: any thread.
#pragma once

#include <functional>

#include "muster/base/error.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::distribute {

// For a task that fails before it asks to join its group, with a wrong flag or without its data:
// the others would wait ten minutes for it. If TF_CONFIG names a cluster, the chief receives the
// reason, if it answers within some seconds. A chief notifies the tasks that ask in these seconds.
// It ends earlier if no task is left to notify, for example if all tasks have the same wrong flag.
// `cancelled` ends them. Does nothing in a process that has asked to join, and in a build without
// the control plane.
void report_start_failure(const Error& error, const std::function<bool()>& cancelled) noexcept;

// This process asks to join its group: the group is notified in other ways, and if it is refused,
// that does not concern the group.
MUSTER_PART_EXPORT void note_joining() noexcept;

}  // namespace muster::inline v0_1::distribute
