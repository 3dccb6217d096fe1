#include "muster/control/testing/simulated_network.h"

#include <algorithm>
#include <functional>
#include <type_traits>
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
    return call(request, timeout, &net::CoordinatorHandler::join);
  }
  Result<Reply> beat(const net::BeatRequest& request, double timeout) override {
    return call(request, timeout, &net::CoordinatorHandler::beat);
  }
  Result<Reply> declare_model(const net::ModelRequest& request, double timeout) override {
    return call(request, timeout, &net::CoordinatorHandler::declare_model);
  }
  Result<Reply> barrier(const net::BarrierRequest& request, double timeout) override {
    return call(request, timeout, &net::CoordinatorHandler::barrier);
  }
  Result<Reply> store(const net::StoreRequest& request, double timeout) override {
    return call(request, timeout, &net::CoordinatorHandler::store);
  }
  Result<Reply> fail(const net::FailRequest& request, double timeout) override {
    return call(request, timeout, &net::CoordinatorHandler::fail);
  }
  Result<Reply> goodbye(const net::GoodbyeRequest& request, double timeout) override {
    return call(request, timeout, &net::CoordinatorHandler::goodbye);
  }

  Status watch(const plan::Caller& who, const std::function<void(const Reply&)>& receive) override {
    process_.enter(SimulatedThreads::Role::kListener);
    const Since since{link_.generation, network_.servers_};
    const auto broken = [&, since] { return broken_since(since); };
    // A stream is repeated by the network until it arrives.
    const auto arrives = [&] {
      process_.wait_until(link_.cut_until, broken);
      process_.wait_until(process_.now() + delay(), broken);
      return !broken();
    };
    if (arrives()) {
      network_.handler_->watch({.who = who}, {.cancelled = broken}, [&](const Reply& reply) {
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
  // When a connection was made.
  struct Since {
    int generation = 0;
    int servers = 0;
  };
  Duration delay() {
    return from_seconds(network_.simulated_.uniform(0, network_.options_.longest_delay));
  }
  bool broken_since(const Since& since) const {
    return closed_ || network_.handler_ == nullptr || network_.servers_ != since.servers ||
           link_.generation != since.generation;
  }
  bool server_stands_still() const {
    return network_.server_ != nullptr && process_.now() < network_.server_->frozen_until();
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

  // Some methods of the handler wait, and take what ends the wait.
  template <typename Method, typename Request>
  static Reply serve(Method method, net::CoordinatorHandler& handler, const Request& request,
                     const net::Call& call) {
    if constexpr (std::is_invocable_v<Method, net::CoordinatorHandler&, const Request&,
                                      const net::Call&>) {
      return (handler.*method)(request, call);
    } else {
      return (handler.*method)(request);
    }
  }

  template <typename Request, typename Method>
  Result<Reply> call(const Request& request, double timeout, Method method) {
    const TimePoint deadline = process_.now() + from_seconds(timeout);
    const Since since{link_.generation, network_.servers_};
    const auto broken = [&, since] { return broken_since(since); };
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
    while (server_stands_still()) {
      const TimePoint awake = network_.server_->frozen_until();
      process_.wait_until(std::min(awake, deadline), broken);
      if (broken()) return unavailable();
      if (process_.now() >= deadline)
        return Error(ErrorKind::kTimeout, "there was no answer in time");
    }
    net::CoordinatorHandler& handler = *network_.handler_;
    if (late_) std::exchange(late_, nullptr)(handler);
    Reply reply;
    try {
      reply = serve(method, handler, request, net::Call{.cancelled = broken});
    } catch (const Error& error) {
      reply = {.verdict = {.state = plan::Verdict::State::kRefused, .refusal = error}};
    }
    // A client asks twice for what may be done twice, and its first question may come last.
    constexpr bool may_repeat = !std::is_same_v<Request, net::StoreRequest>;
    if (may_repeat && network_.options_.duplicates > 0 &&
        network_.simulated_.uniform(0, 1) < network_.options_.duplicates) {
      late_ = [request, method](net::CoordinatorHandler& again) {
        try {
          (void)serve(method, again, request, net::Call{.cancelled = [] { return true; }});
        } catch (const Error&) {
          // Nobody hears the answer.
        }
      };
    }
    if (Status back = travel(); !back.ok()) return back.error();
    return reply;
  }

  SimulatedNetwork& network_;
  SimulatedThreads::Process& process_;
  Link& link_;
  bool closed_ = false;
  std::function<void(net::CoordinatorHandler&)> late_;  // a request that comes a second time
};

SimulatedNetwork::SimulatedNetwork(SimulatedThreads& simulated, net::CoordinatorHandler& handler,
                                   NetworkOptions options)
    : simulated_(simulated), handler_(&handler), options_(options) {}

std::unique_ptr<net::CoordinatorChannel> SimulatedNetwork::connect(
    SimulatedThreads::Process& process) {
  return std::make_unique<Channel>(*this, process);
}

void SimulatedNetwork::end_server() {
  handler_ = nullptr;
  ++servers_;
}

void SimulatedNetwork::start_server(net::CoordinatorHandler& handler,
                                    const SimulatedThreads::Process* process) {
  handler_ = &handler;
  server_ = process;
}

SimulatedNetwork::Link& SimulatedNetwork::link_of(int process) {
  while (static_cast<int>(links_.size()) <= process) links_.push_back(std::make_unique<Link>());
  return *links_[static_cast<size_t>(process)];
}

}  // namespace muster::inline v0_1::control
