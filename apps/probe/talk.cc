#include "apps/probe/talk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/collectives/shared_memory_communicator.h"
#include "muster/collectives/tcp_communicator.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_server.h"
#include "muster/distribute/coordinator_store.h"
#include "muster/launch/child_process.h"
#include "muster/tensor/libtorch.h"

namespace muster::probe {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Loading LibTorch from a cold disk takes longest: the second process does so while we wait to
// meet.
constexpr double kJoinSeconds = 20;
constexpr milliseconds kStep = std::chrono::seconds(10);
constexpr int64_t kNumbers = 100'000;

json ok() { return {{"state", "ok"}}; }
json failed(const Error& error) {
  std::string text = error.message();
  for (const std::string& cause : error.causes()) text += ": " + cause;
  return {{"state", "failed"}, {"error", text}, {"hint", error.hint()}};
}
json skipped() { return {{"state", "skipped"}}; }

// Converts an exception of `call` to the answer.
template <typename Call>
json attempt(Call&& call) {
  try {
    call();
    return ok();
  } catch (const Error& error) {
    return failed(error);
  } catch (const std::exception& error) {
    return failed(internal_error(error.what()));
  }
}

void check_sum(Communicator& group) {
  const Tensor own = torch::arange(kNumbers, at::kFloat) * (group.rank() + 1);
  Tensor buffer = group.allocate(kNumbers * 4).view(at::kFloat);
  buffer.copy_(own);
  group.all_reduce(buffer).wait();
  if (!buffer.equal(torch::arange(kNumbers, at::kFloat) * 3)) {
    throw internal_error(fmt::format("the sum over {} came out wrong", group.name()),
                         "report it, with the output of muster doctor --json");
  }
  group.barrier().wait();
}

std::unique_ptr<control::CoordinatorClient> join(const std::string& address, int rank) {
  return control::CoordinatorClient::join({.address = address,
                                           .task = fmt::format("worker:{}", rank),
                                           .rank = rank,
                                           .world_size = 2,
                                           .join_timeout = kJoinSeconds,
                                           .coordinator_task = "worker:0"});
}

// Both ranks call this. Each transport is tried, even when the other one failed.
json try_transports(control::CoordinatorClient& client, int rank) {
  distribute::CoordinatorStore store(client, "doctor/");
  json results;
  results["tcp"] = attempt([&] {
    check_sum(*make_tcp_communicator({.rendezvous = &store,
                                      .rank = rank,
                                      .size = 2,
                                      .timeout = kStep,
                                      .connect_timeout = kStep}));
  });
  results["shared_memory"] = attempt([&] {
    check_sum(*make_shared_memory_communicator({.rendezvous = &store,
                                                .rank = rank,
                                                .size = 2,
                                                .timeout = kStep,
                                                // The other rank may still be waiting for TCP.
                                                .connect_timeout = 3 * kStep}));
  });
  return results;
}

// The process that is rank 1. It gets some time to end by itself, then it is killed.
class Second {
 public:
  explicit Second(const std::string& address)
      : child_({.argv = {"/proc/self/exe", "--second", address},
                // Standard output is for our facts alone.
                .out = STDERR_FILENO}) {}
  ~Second() { child_.wait_for(std::chrono::seconds(3)); }
  Second(const Second&) = delete;
  Second& operator=(const Second&) = delete;

 private:
  launch::ChildProcess child_;
};

}  // namespace

json talk() {
  json results = {{"coordinator", skipped()}, {"tcp", skipped()}, {"shared_memory", skipped()}};
  results["coordinator"] = attempt([&] {
    control::ServerOptions options;
    options.address = "127.0.0.1:0";
    for (int rank = 0; rank < 2; ++rank) {
      options.group.roster.push_back({fmt::format("worker:{}", rank), "127.0.0.1:0"});
    }
    control::CoordinatorServer server(options);
    Second second(server.address());
    const auto client = join(server.address(), 0);
    json own = try_transports(*client, 0);
    const json other = json::parse(client->get("doctor/results", kJoinSeconds));
    for (const auto& [transport, result] : own.items()) {
      // The side that failed first knows the cause; we do not know which that was, so ours is as
      // good.
      results[transport] = result.at("state") == "ok" ? other.at(transport) : result;
    }
    client->done();
    client->close();
    server.stop(2);
  });
  return results;
}

int talk_as_second(const std::string& coordinator) {
  const json result = attempt([&] {
    const auto client = join(coordinator, 1);
    client->set("doctor/results", try_transports(*client, 1).dump());
    client->done();
    client->close();
  });
  if (result.at("state") == "ok") return 0;
  fmt::print(stderr, "second process: {}\n", result.at("error").get<std::string>());
  return 1;
}

}  // namespace muster::probe
