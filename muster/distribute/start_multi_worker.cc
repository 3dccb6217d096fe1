#include "muster/distribute/internal/start_multi_worker.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/distribute/internal/cluster_process_group.h"
#include "muster/distribute/internal/connect_replicas.h"
#include "muster/distribute/internal/make_replica.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::distribute {
namespace {

// Sends an error that occurs while the replicas are brought together to the other processes.
template <typename Fn>
auto or_fail(ClusterProcessGroup& cluster, Fn fn) {
  try {
    return fn();
  } catch (const Error& error) {
    const Error cause = cluster.explain(error, [] { return false; });
    cluster.fail(cause);
    throw cause;
  }
}

}  // namespace

std::vector<std::unique_ptr<Replica>> start_multi_worker(const StartOptions& start,
                                                         const CommunicationOptions& options,
                                                         const std::vector<Device>& devices) {
  const auto locals = static_cast<int>(devices.size());
  const auto cluster = ClusterProcessGroup::join(start, options);
  const cluster::ResolvedCluster& resolved = cluster->members();
  const auto place = [&](int local) {
    return ReplicaPlace{.process = resolved.rank,
                        .processes = resolved.num_workers,
                        .local = local,
                        .locals = locals,
                        .in_chief_process = resolved.is_chief,
                        .task = plan::readable_task(resolved.task.name()),
                        .device = devices[static_cast<size_t>(local)]};
  };
  auto communicators = or_fail(*cluster, [&] {
    cluster->check_options(devices);
    return connect_replicas(
        locals, [&](int local) { return cluster->connect(place(local)); },
        [&](const Error& error) { cluster->fail(cluster->explain(error, [] { return false; })); });
  });
  const auto group = std::make_shared<LocalGroup>(
      locals,
      LocalGroup::Patience{.progress = options.progress_timeout.count(),
                           .save = options.save_timeout.count()},
      place(0).replica());
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int local = 0; local < locals; ++local) {
    std::string title = fmt::format("MultiWorkerMirrored: {} ({} of {}{})",
                                    plan::readable_task(resolved.task.name()), resolved.rank + 1,
                                    resolved.num_workers, resolved.is_chief ? ", chief" : "");
    if (!devices[0].is_cpu()) title += ", on " + place(local).device.str();
    if (locals > 1) {
      title += fmt::format(", replica {} of {}", place(local).replica(), place(local).replicas());
    }
    replicas.push_back(internal::make_replica(
        place(local), title, start.seed, std::move(communicators[static_cast<size_t>(local)]),
        group, cluster,
        {.bytes_per_pack = options.bytes_per_pack, .wire_dtype = options.wire_dtype}));
  }
  return replicas;
}

}  // namespace muster::inline v0_1::distribute
