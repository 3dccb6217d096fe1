#include "muster/control/internal/simulated_network.h"

#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::control {

using net::Reply;

// The thread of a call carries its request to the handler and takes the role of the server's thread
// there.
class SimulatedNetwork::Channel : public net::CoordinatorChannel {
 public:
  Channel(SimulatedNetwork& network, SimulatedThreads::Process& process)
      : network_(network), process_(process), link_(network.link_of(process.number())) {}

  Result<Reply> join(const net::JoinRequest& request, double timeout) override {
    return call(timeout, [&](const net::Call& c) { return handler().join(request, c); });
  }
  Result<Reply> beat(const net::BeatRequest& request, double timeout) override {
    return call(timeout, [&](const net::Call&) { return handler().beat(request); });
  }
  Result<Reply> declare_model(const net::ModelRequest& request, double timeout) override {
    return call(timeout, [&](const net::Call&) { return handler().declare_model(request); });
  }
  Result<Reply> barrier(const net::BarrierRequest& request, double timeout) override {
    return call(timeout, [&](const net::Call& c) { return handler().barrier(request, c); });
  }
  Result<Reply> store(const net::StoreRequest& request, double timeout) override {
    return call(timeout, [&](const net::Call& c) { return handler().store(request, c); });
  }
  Result<Reply> fail(const net::FailRequest& request, double timeout) override {
    return call(timeout, [&](const net::Call&) { return handler().fail(request); });
  }
  Result<Reply> goodbye(const net::GoodbyeRequest& request, double timeout) override {
    return call(timeout, [&](const net::Call&) { return handler().goodbye(request); });
  }

  Status watch(const plan::Caller& who, const std::function<void(const Reply&)>& receive) override {
    process_.enter(SimulatedThreads::Role::kListener);
    const int generation = link_.generation;
    const auto broken = [&, generation] { return broken_since(generation); };
    // A stream is repeated by the network until it arrives.
    const auto arrives = [&] {
      process_.wait_until(link_.cut_until, broken);
      process_.wait_until(process_.now() + delay(), broken);
      return !broken();
    };
    if (arrives()) {
      handler().watch(who, {.cancelled = broken}, [&](const Reply& reply) {
        if (!arrives()) return false;
        receive(reply);
        return true;
      });
    }
    process_.sleep_for(delay());
    return closed_ ? cancelled() : unavailable();
  }

  void close() override { closed_ = true; }

 private:
  net::CoordinatorHandler& handler() { return network_.handler_; }
  Duration delay() {
    return from_seconds(network_.simulated_.uniform(0, network_.options_.longest_delay));
  }
  bool broken_since(int generation) const {
    return closed_ || network_.server_ended_ || link_.generation != generation;
  }
  static Error cancelled() { return Error(ErrorKind::kCancelled, "the channel is closed"); }
  static Error unavailable() { return Error(ErrorKind::kUnavailable, "there is no connection"); }

  // Whether a message sent now arrives.
  bool is_lost() {
    if (process_.now() < link_.cut_until) return true;
    if (network_.options_.loss <= 0 || process_.now() < link_.next_loss) return false;
    if (network_.simulated_.uniform(0, 1) >= network_.options_.loss) return false;
    link_.next_loss = process_.now() + from_seconds(network_.options_.between_losses);
    return true;
  }

  template <typename Serve>
  Result<Reply> call(double timeout, Serve serve) {
    const TimePoint deadline = process_.now() + from_seconds(timeout);
    const int generation = link_.generation;
    const auto broken = [&, generation] { return broken_since(generation); };
    // Nothing when the message has arrived.
    const auto travel = [&]() -> Status {
      const TimePoint arrival = is_lost() ? deadline : process_.now() + delay();
      process_.wait_until(std::min(arrival, deadline), broken);
      if (closed_) return cancelled();
      if (broken()) return unavailable();
      if (arrival >= deadline) return Error(ErrorKind::kTimeout, "there was no answer in time");
      return {};
    };
    if (Status there = travel(); !there.ok()) return there.error();
    Reply reply;
    try {
      reply = serve({.cancelled = broken});
    } catch (const Error& error) {
      reply = {.verdict = {.state = plan::Verdict::State::kRefused, .refusal = error}};
    }
    if (Status back = travel(); !back.ok()) return back.error();
    return reply;
  }

  SimulatedNetwork& network_;
  SimulatedThreads::Process& process_;
  Link& link_;
  bool closed_ = false;
};

SimulatedNetwork::SimulatedNetwork(SimulatedThreads& simulated, net::CoordinatorHandler& handler,
                                   NetworkOptions options)
    : simulated_(simulated), handler_(handler), options_(options) {}

std::unique_ptr<net::CoordinatorChannel> SimulatedNetwork::connect(
    SimulatedThreads::Process& process) {
  return std::make_unique<Channel>(*this, process);
}

void SimulatedNetwork::end_server() { server_ended_ = true; }

SimulatedNetwork::Link& SimulatedNetwork::link_of(int process) {
  while (static_cast<int>(links_.size()) <= process) links_.push_back(std::make_unique<Link>());
  return *links_[static_cast<size_t>(process)];
}

}  // namespace muster::inline v0_1::control
