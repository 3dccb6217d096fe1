#include "muster/net/coordinator_service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/net/coordinator.grpc.pb.h"
#include "muster/net/internal/acceptor.h"
#include "muster/net/internal/admission.h"
#include "muster/net/internal/coordinator_wire.h"
#include "muster/net/internal/listener.h"
#include "muster/net/internal/peer.h"
#include "muster/net/internal/stranger_log.h"
#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::net {
namespace {

Reply refusal(const Error& error) {
  return {.verdict = {.state = plan::Verdict::State::kRefused, .refusal = error}};
}

// Runs `serve` for a task of the job, and turns what it throws into a refusal the client can
// rethrow.
template <typename Serve>
grpc::Status answer(Admission& admission, const grpc::ServerContext& context, wire::Reply* reply,
                    Serve serve) {
  if (grpc::Status judged = admission.judge(context); !judged.ok()) return judged;
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
  if (const size_t bytes = reply->ByteSizeLong(); bytes > kMaxMessageBytes)
    *reply = to_wire(refusal(too_large("the coordinator's answer", bytes)));
  return grpc::Status::OK;
}

class Adapter final : public wire::Coordinator::Service {
 public:
  // Calls `admitted` and `refused` as Admission does.
  Adapter(CoordinatorHandler& handler, const cluster::Job& job, StrangerLog& log,
          Admission::Tell admitted, Admission::Tell refused)
      : handler_(handler), admission_(job, log, std::move(admitted), std::move(refused)) {}

  grpc::Status Join(grpc::ServerContext* context, const wire::JoinRequest* request,
                    wire::Reply* reply) override {
    return answer(admission_, *context, reply,
                  [&] { return handler_.join(from_wire(*request), call_of(context)); });
  }
  grpc::Status Beat(grpc::ServerContext* context, const wire::BeatRequest* request,
                    wire::Reply* reply) override {
    return answer(admission_, *context, reply, [&] { return handler_.beat(from_wire(*request)); });
  }
  grpc::Status DeclareModel(grpc::ServerContext* context, const wire::ModelRequest* request,
                            wire::Reply* reply) override {
    return answer(admission_, *context, reply,
                  [&] { return handler_.declare_model(from_wire(*request)); });
  }
  grpc::Status Barrier(grpc::ServerContext* context, const wire::BarrierRequest* request,
                       wire::Reply* reply) override {
    return answer(admission_, *context, reply,
                  [&] { return handler_.barrier(from_wire(*request), call_of(context)); });
  }
  grpc::Status Store(grpc::ServerContext* context, const wire::StoreRequest* request,
                     wire::Reply* reply) override {
    return answer(admission_, *context, reply,
                  [&] { return handler_.store(from_wire(*request), call_of(context)); });
  }
  grpc::Status Fail(grpc::ServerContext* context, const wire::FailRequest* request,
                    wire::Reply* reply) override {
    return answer(admission_, *context, reply, [&] { return handler_.fail(from_wire(*request)); });
  }
  grpc::Status Goodbye(grpc::ServerContext* context, const wire::GoodbyeRequest* request,
                       wire::Reply* reply) override {
    return answer(admission_, *context, reply,
                  [&] { return handler_.goodbye(from_wire(*request)); });
  }
  grpc::Status Watch(grpc::ServerContext* context, const wire::MemberId* request,
                     grpc::ServerWriter<wire::Reply>* writer) override {
    if (grpc::Status judged = admission_.judge(*context); !judged.ok()) return judged;
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
  Admission admission_;
};

// The limits of connections without a proven call. All tasks may come at once, and from one
// address. A few thousand bytes are a hundred calls that never end, of 10 kB of memory each: so
// there is room for one call and little more.
AcceptorLimits limits_of(const cluster::Job& job, int tasks) {
  constexpr size_t kCallBytes = 2 << 10, kHandshakeBytes = 24 << 10, kAddressBytes = 300;
  const auto count = static_cast<size_t>(std::max(1, tasks));
  const size_t shown = 2 * (job.token.size() + job.id.size());  // as base64, and what surrounds it
  return {.connections = 32 + 2 * count,
          .bytes = static_cast<int64_t>(kCallBytes + shown + kAddressBytes * count +
                                        (job.tls ? kHandshakeBytes : 0))};
}

// What those may cost that are connected.
void bound_calls(grpc::ServerBuilder& builder, int tasks) {
  constexpr int kHandshakeMs = 5000;
  constexpr int kIdleMs = 30'000;  // members keep a stream open and so are never idle
  // Of one connection. A member watches, beats, and makes a call or two beside that.
  constexpr int kStreams = 8;
  constexpr int kHeaderBytes = 8 << 10;
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kHeaderBytes);
  // Each waiting call of a member or guest holds a thread; gRPC has some for each core.
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  grpc::ResourceQuota quota("coordinator");
  quota.SetMaxThreads(64 + 4 * cores +
                      kStreams * (tasks + plan::CoordinatorState::most_guests(tasks)));
  builder.SetResourceQuota(quota);
}

}  // namespace

struct CoordinatorService::Impl {
  Impl(CoordinatorHandler& handler, const cluster::Job& job)
      : adapter(
            handler, job, log, [this](const std::string& peer) { acceptor->proved(peer_of(peer)); },
            [this](const std::string& peer) { acceptor->explained(peer_of(peer)); }) {}
  StrangerLog log;
  Adapter adapter;
  std::unique_ptr<grpc::Server> server{};
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> entrance{};  // to the server
  std::unique_ptr<Acceptor> acceptor{};
  int port = 0;
  std::once_flag stopped{};
};

CoordinatorService::CoordinatorService(CoordinatorHandler& handler, const std::string& address,
                                       const cluster::Job& job, int tasks)
    : impl_(std::make_unique<Impl>(handler, job)) {
  quiet_grpc();
  Listener listener = Listener::at(address, Buffering::kLittle);
  impl_->port = listener.port();

  grpc::ServerBuilder builder;
  bound_calls(builder, tasks);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  impl_->entrance = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      server_credentials(job));
  // Each call asks for the acceptor, so it stands before the server has threads.
  impl_->acceptor = std::make_unique<Acceptor>(
      std::move(listener), limits_of(job, tasks),
      AcceptorProtocol{.server = "the coordinator", .tls = job.tls.has_value()}, impl_->log,
      [entrance = impl_->entrance.get()](int connection, const Peer&) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters taken;
        taken.fd = connection;
        entrance->HandleNewConnection(&taken);
      });
  builder.RegisterService(&impl_->adapter);
  impl_->server = builder.BuildAndStart();
  if (!impl_->server) {
    throw invalid_argument(fmt::format("cannot serve the coordinator at {}", address),
                           job.tls ? "check the files of MUSTER_TLS_CERT, MUSTER_TLS_KEY and "
                                     "MUSTER_TLS_CA"
                                   : "");
  }
  impl_->acceptor->start();
}

CoordinatorService::~CoordinatorService() { stop(); }

int CoordinatorService::port() const { return impl_->port; }

std::string CoordinatorService::last_refusal() const { return impl_->log.last(); }

void CoordinatorService::stop() {
  std::call_once(impl_->stopped, [this] {
    impl_->acceptor->stop();
    impl_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
    impl_->server->Wait();
  });
}

}  // namespace muster::inline v0_1::net
