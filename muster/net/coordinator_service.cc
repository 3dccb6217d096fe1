#include "muster/net/coordinator_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>

#include "muster/base/error.h"
#include "muster/net/coordinator.grpc.pb.h"
#include "muster/net/internal/coordinator_wire.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::net {
namespace {

Reply refusal(const Error& error) {
  return {.verdict = {.state = plan::Verdict::State::kRefused, .refusal = error}};
}

// Runs `serve` and turns what it throws into a refusal the client can rethrow.
template <typename Serve>
grpc::Status answer(wire::Reply* reply, Serve serve) {
  Reply plain;
  try {
    plain = serve();
  } catch (const Error& error) {
    plain = refusal(error);
  } catch (const std::exception& error) {
    plain = refusal(Error(ErrorKind::kInternal,
                          fmt::format("the coordinator could not answer: {}", error.what())));
  }
  *reply = to_wire(plain);
  return grpc::Status::OK;
}

class Adapter final : public wire::Coordinator::Service {
 public:
  explicit Adapter(CoordinatorHandler& handler) : handler_(handler) {}

  grpc::Status Join(grpc::ServerContext* context, const wire::JoinRequest* request,
                    wire::Reply* reply) override {
    return answer(reply, [&] { return handler_.join(from_wire(*request), call_of(context)); });
  }
  grpc::Status Beat(grpc::ServerContext*, const wire::BeatRequest* request,
                    wire::Reply* reply) override {
    return answer(reply, [&] { return handler_.beat(from_wire(*request)); });
  }
  grpc::Status DeclareModel(grpc::ServerContext*, const wire::ModelRequest* request,
                            wire::Reply* reply) override {
    return answer(reply, [&] { return handler_.declare_model(from_wire(*request)); });
  }
  grpc::Status Barrier(grpc::ServerContext* context, const wire::BarrierRequest* request,
                       wire::Reply* reply) override {
    return answer(reply, [&] { return handler_.barrier(from_wire(*request), call_of(context)); });
  }
  grpc::Status Store(grpc::ServerContext* context, const wire::StoreRequest* request,
                     wire::Reply* reply) override {
    return answer(reply, [&] { return handler_.store(from_wire(*request), call_of(context)); });
  }
  grpc::Status Fail(grpc::ServerContext*, const wire::FailRequest* request,
                    wire::Reply* reply) override {
    return answer(reply, [&] { return handler_.fail(from_wire(*request)); });
  }
  grpc::Status Goodbye(grpc::ServerContext*, const wire::GoodbyeRequest* request,
                       wire::Reply* reply) override {
    return answer(reply, [&] { return handler_.goodbye(from_wire(*request)); });
  }
  grpc::Status Watch(grpc::ServerContext* context, const wire::MemberId* request,
                     grpc::ServerWriter<wire::Reply>* writer) override {
    try {
      handler_.watch(from_wire(*request), call_of(context),
                     [writer](const Reply& reply) { return writer->Write(to_wire(reply)); });
    } catch (const std::exception& error) {
      return {grpc::StatusCode::INTERNAL, error.what()};
    }
    return grpc::Status::OK;
  }

 private:
  static Call call_of(grpc::ServerContext* context) {
    return {.cancelled = [context] { return context->IsCancelled(); }};
  }

  CoordinatorHandler& handler_;
};

}  // namespace

struct CoordinatorService::Impl {
  explicit Impl(CoordinatorHandler& handler) : adapter(handler) {}
  Adapter adapter;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
  std::once_flag stopped;
};

CoordinatorService::CoordinatorService(CoordinatorHandler& handler, const std::string& address)
    : impl_(std::make_unique<Impl>(handler)) {
  quiet_grpc();
  const HostPort wanted = split_address(address);
  const bool loopback = is_loopback(wanted.host);
  const std::string host = loopback ? wanted.host : "0.0.0.0";
  const std::string hint =
      "another process listens on this port: stop it, or give the task another port in TF_CONFIG";
  // gRPC reports a failed bind only as port 0; asking the system first gives the reason.
  check_port_is_free(host, wanted.port, address, hint);

  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddListeningPort(join_address(host, wanted.port), grpc::InsecureServerCredentials(),
                           &impl_->port);
  builder.RegisterService(&impl_->adapter);
  impl_->server = builder.BuildAndStart();
  if (!impl_->server || impl_->port == 0) {
    throw Error(ErrorKind::kUnavailable, fmt::format("cannot serve the coordinator at {}", address),
                hint);
  }
}

CoordinatorService::~CoordinatorService() { stop(); }

int CoordinatorService::port() const { return impl_->port; }

void CoordinatorService::stop() {
  std::call_once(impl_->stopped, [this] {
    impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
    impl_->server->Wait();
  });
}

}  // namespace muster::inline v0_1::net
