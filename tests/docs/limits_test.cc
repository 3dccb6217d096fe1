// The limits that the documents promise are those that the code has.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "apps/serve/serve_flags.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/lease.h"
#include "muster/control/join_options.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/run_config.h"
#include "muster/launch/supervise.h"
#include "muster/plan/coordinator_state.h"
#include "muster/plan/key_value_store.h"
#include "muster/serve/http_server.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

// A document on one line, so that a sentence is found wherever its lines end.
std::string document(const std::string& name) {
  const char* root = std::getenv("MUSTER_SOURCE_DIR");
  const std::string text =
      local_file_system().read_file(join_path(root == nullptr ? "" : root, "docs/" + name)).value();
  std::string line;
  for (const char letter : text) {
    const char space = letter == '\n' ? ' ' : letter;
    if (space != ' ' || !line.ends_with(' ')) line += space;
  }
  return line;
}

template <typename Duration>
double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

TEST(DocumentedLimits, OfReliability) {
  const std::string text = document("reliability.md");
  const auto expect = [&](const char* limit, double value, const char* unit = "s") {
    EXPECT_THAT(text, HasSubstr(fmt::format("| {} | {:g} {}", limit, value, unit)));
  };
  const RunConfig config;
  const distribute::CommunicationOptions communication;
  const plan::CoordinatorOptions coordinator;
  const launch::SuperviseOptions supervise;
  const stores::StoreOptions store;
  expect("a task does not appear", config.join_timeout.count());
  expect("a task is silent", communication.heartbeat_timeout.count());
  expect("its connection breaks", coordinator.reconnect_timeout);
  EXPECT_EQ(control::JoinOptions().reconnect_timeout, coordinator.reconnect_timeout);
  expect("a task that is alive makes no step", communication.progress_timeout.count());
  expect("a save", communication.save_timeout.count());
  expect("building the model, or evaluating", coordinator.busy_timeout / 3600, "h");
  expect("one collective", communication.timeout.count());
  expect("SIGTERM or Ctrl-C while the other tasks hang", control::JoinOptions().stop_timeout);
  expect("`muster run`: one task has failed, the others run", seconds(supervise.survivor_time));
  expect("`muster run`: a task runs after SIGTERM", seconds(supervise.grace));
  expect("`muster run` itself is stopped", seconds(supervise.stop_time));
  expect("`muster run`: one task has ended with 0, the others are idle",
         seconds(supervise.idle_time));
  expect("an evaluator does not confirm that it takes the last checkpoint",
         seconds(LeaseWatch::kHeartbeatTimeout));
  expect("an evaluator sees no chief at work", config.evaluator_timeout.count());
  EXPECT_THAT(text, HasSubstr(fmt::format(
                        "| {:g} s of retries; {:g} s if the server was never reached |",
                        store.retry_timeout.count(), store.connect_retry_timeout.count())));
}

TEST(DocumentedLimits, OfSecurity) {
  const std::string text = document("security.md");
  for (const std::string& limit :
       {fmt::format("{},000 keys and {} MiB in the coordinator's store",
                    plan::KeyValueStore::kMostKeys / 1000, plan::KeyValueStore::kMostBytes >> 20),
        fmt::format("{},000 barriers", plan::CoordinatorState::kMostBarriers / 1000),
        fmt::format("{} + *n* observers", plan::CoordinatorState::most_observers(0))}) {
    EXPECT_THAT(text, HasSubstr(limit));
  }
}

TEST(DocumentedLimits, OfServing) {
  const std::string text = document("serving.md");
  const app::ServeFlags flags;
  const serve::HttpServerOptions server;
  for (const std::string& limit :
       {fmt::format("Every `--poll-time` seconds ({:g})", flags.poll_time),
        fmt::format("at most `--max-batch-size` rows together ({})", flags.max_batch_size),
        fmt::format("open requests have `--drain-time` seconds ({:g})", flags.drain_time),
        fmt::format("A connection without a request is closed after {:g} s",
                    seconds(server.idle_time))}) {
    EXPECT_THAT(text, HasSubstr(limit));
  }
  // Values that the flags leave to the server are the server's defaults.
  EXPECT_EQ(flags.host, server.host);
  EXPECT_EQ(flags.port, server.port);
  EXPECT_EQ(flags.max_connections, server.max_connections);
  EXPECT_EQ(static_cast<size_t>(flags.max_body) << 20, server.max_body_bytes);
  EXPECT_EQ(flags.request_time, seconds(server.request_time));
}

TEST(DocumentedLimits, OfBuckets) {
  const std::string text = document("buckets.md");
  const stores::StoreOptions store;
  for (const std::string& limit :
       {fmt::format("to {} MiB, {} at once", store.block_bytes >> 20, store.blocks_ahead),
        fmt::format("and {} MiB for all of a store", store.read_ahead_bytes >> 20),
        fmt::format("in parts of {} MiB, up to {} at a time", store.part_bytes >> 20,
                    store.parts_in_flight),
        fmt::format("waits {:g} s at first and at most {:g} s", store.first_delay.count(),
                    store.longest_delay.count()),
        fmt::format("stalls for {:g} s", store.stall_timeout.count()),
        fmt::format("fails after {:g} s", store.connect_retry_timeout.count())}) {
    EXPECT_THAT(text, HasSubstr(limit));
  }
}

}  // namespace
}  // namespace muster::inline v0_1
