// What launchers say to the rendezvous and hear from it, as bytes: net/message_fields.h. A change
// that adds, removes or moves a field raises net's kProtocolVersion. Values; thread-safe.
#pragma once

#include <cstdint>
#include <tuple>

#include "muster/net/message_fields.h"
#include "muster/nodes/rendezvous.h"

namespace muster::inline v0_1::net {

template <>
inline constexpr nodes::NodeReport::State kLastOf<nodes::NodeReport::State> =
    nodes::NodeReport::State::kLeaving;
template <>
inline constexpr nodes::RunView::State kLastOf<nodes::RunView::State> =
    nodes::RunView::State::kOver;

}  // namespace muster::inline v0_1::net

namespace muster::inline v0_1::nodes {

// A launcher's message. The answer is a RunView.
struct ReportMessage {
  uint64_t process = 0;  // a random number of the launcher's process
  NodeReport report{};
  static auto fields(auto& m) { return std::tie(m.process, m.report); }
};

}  // namespace muster::inline v0_1::nodes
