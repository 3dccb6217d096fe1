#include "benchmarks/servers/grpc_copy.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "benchmarks/servers/grpc_copy.grpc.pb.h"
#include "muster/base/error.h"

namespace muster::bench {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

template <typename StreamOf>
void write_all(StreamOf& stream, std::span<const std::byte> bytes) {
  Chunk chunk;
  while (!bytes.empty()) {
    const size_t some = std::min(kChunkBytes, bytes.size());
    chunk.set_data(bytes.data(), some);
    if (!stream.Write(chunk)) throw Error(ErrorKind::kUnavailable, "the stream has ended");
    bytes = bytes.subspan(some);
  }
}

// Appends what comes until `into` is full.
template <typename StreamOf>
void read_all(StreamOf& stream, Chunk& chunk, std::span<std::byte> into) {
  while (!into.empty()) {
    if (!stream.Read(&chunk)) throw Error(ErrorKind::kUnavailable, "the stream has ended");
    const size_t some = std::min(chunk.data().size(), into.size());
    std::memcpy(into.data(), chunk.data().data(), some);
    into = into.subspan(some);
  }
}

class Service final : public Copy::Service {
 public:
  explicit Service(size_t bytes) : memory_(bytes) {}

  grpc::Status Move(grpc::ServerContext*, grpc::ServerReaderWriter<Chunk, Chunk>* stream) override {
    Chunk chunk;
    while (stream->Read(&chunk)) {
      write_all(*stream, std::span(memory_).first(static_cast<size_t>(chunk.wanted())));
      read_all(*stream, chunk, memory_);
      stream->Write(Chunk());
    }
    return grpc::Status::OK;
  }

 private:
  std::vector<std::byte> memory_;
};

}  // namespace

struct GrpcCopy::Impl {
  explicit Impl(size_t bytes) : service(bytes) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    if (!server) throw Error(ErrorKind::kUnavailable, "no port of loopback is free");
    stub = Copy::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                             grpc::InsecureChannelCredentials()));
    stream = stub->Move(&context);
  }
  ~Impl() {
    stream->WritesDone();
    stream->Finish();
    server->Shutdown();
  }

  Service service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<Copy::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<Chunk, Chunk>> stream;
};

GrpcCopy::GrpcCopy(size_t bytes) : impl_(std::make_unique<Impl>(bytes)) {}

GrpcCopy::~GrpcCopy() = default;

void GrpcCopy::there_and_back(std::span<const std::byte> from, std::span<std::byte> to) {
  Chunk chunk;
  chunk.set_wanted(static_cast<int64_t>(to.size()));
  impl_->stream->Write(chunk);
  read_all(*impl_->stream, chunk, to);
  write_all(*impl_->stream, from);
  if (!impl_->stream->Read(&chunk)) throw Error(ErrorKind::kUnavailable, "the stream has ended");
}

}  // namespace muster::bench
