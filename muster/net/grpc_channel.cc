#include "muster/net/grpc_channel.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>
#include <set>

#include "muster/net/coordinator.grpc.pb.h"
#include "muster/net/internal/admission.h"
#include "muster/net/internal/coordinator_wire.h"
#include "muster/net/internal/job_words.h"

namespace muster::inline v0_1::net {
namespace {

constexpr int kMaxReconnectMs = 1000;

ErrorKind kind_of(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
      return ErrorKind::kUnavailable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorKind::kTimeout;
    case grpc::StatusCode::CANCELLED:
      return ErrorKind::kCancelled;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorKind::kInvalidArgument;
    default:
      return ErrorKind::kInternal;
  }
}

// Whether gRPC says that the other end's certificate was not accepted. It gives no code for that.
bool is_verification_failure(const std::string& message) {
  return message.find("Ssl handshake failed: SSL_ERROR_SSL") != std::string::npos ||
         message.find("is not in peer certificate") != std::string::npos;
}

}  // namespace

struct GrpcChannel::Impl {
  std::string address{};
  cluster::Job job;
  std::shared_ptr<grpc::Channel> channel{};
  std::unique_ptr<wire::Coordinator::Stub> stub{};
  std::mutex mutex{};
  bool closed = false;
  std::set<grpc::ClientContext*> running{};

  // Keeps the call in `running`, so that close() can end it.
  class Running {
   public:
    Running(Impl& impl, grpc::ClientContext& context) : impl_(impl), context_(context) {
      std::lock_guard lock(impl_.mutex);
      impl_.running.insert(&context_);
      if (impl_.closed) context_.TryCancel();
    }
    ~Running() {
      std::lock_guard lock(impl_.mutex);
      impl_.running.erase(&context_);
    }

   private:
    Impl& impl_;
    grpc::ClientContext& context_;
  };

  Error error_of(const grpc::Status& status) const {
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      return invalid_argument(fmt::format("at {}, {}", address, status.error_message()),
                              kGiveTheSameJob);
    }
    if (job.tls && is_verification_failure(status.error_message())) {
      return invalid_argument(
          fmt::format("the certificate of the coordinator at {} was not accepted: {}", address,
                      status.error_message()),
          "MUSTER_TLS_CA must name the authority of the coordinator's certificate, and that the "
          "host in TF_CONFIG, or MUSTER_TLS_SERVER_NAME");
    }
    return Error(
        kind_of(status.error_code()),
        fmt::format("the coordinator at {} did not answer: {}", address, status.error_message()));
  }

  template <typename Request, typename Method>
  Result<Reply> call(Method method, const Request& request, double timeout_seconds) {
    grpc::ClientContext context;
    show_job(job, context);
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000)));
    const auto message = to_wire(request);
    if (const size_t bytes = message.ByteSizeLong(); bytes > kMaxMessageBytes)
      return too_large("a message to the coordinator", bytes);
    Running running(*this, context);
    wire::Reply reply;
    grpc::Status status = (stub.get()->*method)(&context, message, &reply);
    if (!status.ok()) return error_of(status);
    return from_wire(reply);
  }
};

GrpcChannel::GrpcChannel(std::string address, cluster::Job job) : impl_(std::make_unique<Impl>()) {
  quiet_grpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // This one is the time a single attempt may take, handshake included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  // Two members in one process (tests, in-process runs) must not share a connection: its end says
  // who is gone.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  impl_->address = std::move(address);
  impl_->job = std::move(job);
  if (impl_->job.tls && !impl_->job.tls->server_name.empty())
    arguments.SetSslTargetNameOverride(impl_->job.tls->server_name);
  impl_->channel =
      grpc::CreateCustomChannel(impl_->address, client_credentials(impl_->job), arguments);
  impl_->stub = wire::Coordinator::NewStub(impl_->channel);
}

GrpcChannel::~GrpcChannel() { close(); }

using Stub = wire::Coordinator::Stub;

Result<Reply> GrpcChannel::join(const JoinRequest& request, double timeout_seconds) {
  return impl_->call(&Stub::Join, request, timeout_seconds);
}
Result<Reply> GrpcChannel::beat(const BeatRequest& request, double timeout_seconds) {
  return impl_->call(&Stub::Beat, request, timeout_seconds);
}
Result<Reply> GrpcChannel::declare_model(const ModelRequest& request, double timeout_seconds) {
  return impl_->call(&Stub::DeclareModel, request, timeout_seconds);
}
Result<Reply> GrpcChannel::barrier(const BarrierRequest& request, double timeout_seconds) {
  return impl_->call(&Stub::Barrier, request, timeout_seconds);
}
Result<Reply> GrpcChannel::store(const StoreRequest& request, double timeout_seconds) {
  return impl_->call(&Stub::Store, request, timeout_seconds);
}
Result<Reply> GrpcChannel::fail(const FailRequest& request, double timeout_seconds) {
  return impl_->call(&Stub::Fail, request, timeout_seconds);
}
Result<Reply> GrpcChannel::goodbye(const GoodbyeRequest& request, double timeout_seconds) {
  return impl_->call(&Stub::Goodbye, request, timeout_seconds);
}

Status GrpcChannel::watch(const plan::Caller& who,
                          const std::function<void(const Reply&)>& receive) {
  grpc::ClientContext context;
  show_job(impl_->job, context);
  Impl::Running running(*impl_, context);
  auto reader = impl_->stub->Watch(&context, to_wire(who));
  wire::Reply reply;
  while (reader->Read(&reply)) receive(from_wire(reply));
  grpc::Status status = reader->Finish();
  if (!status.ok()) return impl_->error_of(status);
  return {};
}

void GrpcChannel::close() {
  std::lock_guard lock(impl_->mutex);
  impl_->closed = true;
  for (grpc::ClientContext* context : impl_->running) context->TryCancel();
}

}  // namespace muster::inline v0_1::net
