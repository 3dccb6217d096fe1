#include "muster/control/coordinator_server.h"

#include <thread>
#include <utility>

#include "muster/base/descriptor_limit.h"
#include "muster/control/coordinator.h"
#include "muster/net/coordinator_service.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::control {

struct CoordinatorServer::Impl {
  explicit Impl(ServerOptions options)
      : address(options.address),
        tasks(static_cast<int>(options.group.roster.size())),
        coordinator({.group = std::move(options.group)}, *options.clock),
        ticker([this] { coordinator.tick_until_ended(); }) {
    // Connections of unauthenticated peers must not keep the chief from opening its checkpoint.
    raise_descriptor_limit();
    try {
      service = std::make_unique<net::CoordinatorService>(coordinator, address, options.job, tasks);
    } catch (...) {
      end();
      throw;
    }
  }

  void end() {
    coordinator.end();
    if (ticker.joinable()) ticker.join();
  }

  const std::string address{};
  const int tasks{};
  Coordinator coordinator;
  std::thread ticker{};
  std::unique_ptr<net::CoordinatorService> service{};  // last: it calls the coordinator
};

CoordinatorServer::CoordinatorServer(ServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

CoordinatorServer::~CoordinatorServer() { stop(0); }

int CoordinatorServer::port() const { return impl_->service->port(); }

std::string CoordinatorServer::address() const {
  return net::join_address(net::split_address(impl_->address).host, port());
}

std::optional<plan::Failure> CoordinatorServer::first_failure() const {
  return impl_->coordinator.first_failure();
}

bool CoordinatorServer::all_know_of_start_failure() const {
  return impl_->coordinator.all_know_of_start_failure();
}

int CoordinatorServer::connections() const { return impl_->coordinator.connections(); }

int64_t CoordinatorServer::newcomers() const { return impl_->coordinator.newcomers(); }

std::string CoordinatorServer::last_refusal() const { return impl_->service->last_refusal(); }

bool CoordinatorServer::stop(double goodbye_timeout) {
  const bool drained = impl_->coordinator.wait_until_drained(goodbye_timeout);
  impl_->end();
  impl_->service->stop();
  return drained;
}

}  // namespace muster::inline v0_1::control
