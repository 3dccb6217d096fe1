// Thread safety: a pure function.
#pragma once

#include <string>

#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute::internal {

// Throws InvalidArgument naming the field of `structure` ("CommunicationOptions") that cannot be
// what it is; `replicas` is the name of the field of local_replicas there.
void check_options(const CommunicationOptions& options, const std::string& structure,
                   const std::string& replicas);

}  // namespace muster::inline v0_1::distribute::internal
