#include "muster/distribute/internal/make_replica.h"

#include <fmt/format.h>

#include <utility>

#include "muster/distribute/internal/replica_group.h"

namespace muster::inline v0_1::distribute::internal {

std::unique_ptr<Replica> make_replica(const ReplicaPlace& place, const std::string& title,
                                      uint64_t seed, std::unique_ptr<Communicator> communicator,
                                      std::shared_ptr<LocalGroup> threads,
                                      std::shared_ptr<ProcessGroup> processes,
                                      const WireOptions& wire) {
  ReplicaParts parts{.place = place,
                     .title = fmt::format("{} over {}", title, communicator->name()),
                     .seed = seed,
                     .communicator = std::move(communicator)};
  parts.group = std::make_unique<ReplicaGroup>(place, std::move(threads), std::move(processes),
                                               *parts.communicator);
  if (place.replicas() == 1) {
    // The last one of an elastic run computes as a run of one worker does.
    parts.exchange = make_lone_exchange();
    parts.updater = make_in_place_updater();
  } else {
    parts.exchange = make_exchange(place, *parts.communicator, *parts.group);
    parts.updater =
        make_reducing_updater(place, *parts.communicator, *parts.group, *parts.exchange, wire);
  }
  return std::make_unique<Replica>(std::move(parts));
}

}  // namespace muster::inline v0_1::distribute::internal
