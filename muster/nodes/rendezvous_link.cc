#include "muster/nodes/rendezvous_link.h"

#include <fmt/format.h>

#include <utility>

namespace muster::inline v0_1::nodes {
namespace {

constexpr double kBeatSeconds = 1;

}  // namespace

RendezvousLink::RendezvousLink(RendezvousLimits limits, NodeReport report, double now)
    : limits_(limits), report_(std::move(report)), heard_at_(now), last_heard_at_(now) {}

void RendezvousLink::say(NodeReport report) {
  if (report == report_) return;
  report_ = std::move(report);
  is_new_ = true;
}

void RendezvousLink::opened(double now) {
  is_new_ = true;
  heard_at_ = now;
}

std::optional<NodeReport> RendezvousLink::take_due(double now) {
  if (!is_new_ && now - sent_at_ <= kBeatSeconds) return std::nullopt;
  sent_at_ = now;
  return report_;
}

void RendezvousLink::sent(const NodeReport& report) {
  if (report == report_) is_new_ = false;
}

void RendezvousLink::heard(RunView view, double now) {
  view_ = std::move(view);
  heard_at_ = last_heard_at_ = now;
  refused_since_.reset();
  last_error_.clear();
}

std::optional<Error> RendezvousLink::silence(double now) const {
  if (now - heard_at_ <= limits_.heartbeat_timeout) return std::nullopt;
  return Error(ErrorKind::kTimeout, fmt::format("no word for {:.1f} s", now - heard_at_));
}

void RendezvousLink::failed(const std::string& error, bool nobody_listens, double now) {
  last_error_ = error;
  if (!nobody_listens) {
    refused_since_.reset();
  } else if (!refused_since_) {
    refused_since_ = now;
  }
}

std::optional<RendezvousLoss> RendezvousLink::loss(double now) const {
  const double silent = now - last_heard_at_;
  if (view_.rendezvous == 0)
    return RendezvousLoss{.reason = last_error_.empty() ? "no answer yet" : last_error_,
                          .never = true,
                          .seconds = silent};
  if (refused_since_ && now - *refused_since_ > limits_.reconnect_timeout)
    return RendezvousLoss{
        .reason = "no process listens there any more", .ended = true, .seconds = silent};
  if (silent <= limits_.heartbeat_timeout) return std::nullopt;
  return RendezvousLoss{.reason = last_error_.empty() ? "it does not answer" : last_error_,
                        .seconds = silent};
}

}  // namespace muster::inline v0_1::nodes
