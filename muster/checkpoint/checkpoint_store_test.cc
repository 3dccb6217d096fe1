// Checkpoints in a store, where nothing is renamed and nothing grows, and which fails at any
// request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/checkpoint/checkpoint_parts.h"
#include "muster/checkpoint/internal/test_checkpoints.h"
#include "muster/checkpoint/lease.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_checkpoint;
using testing::same;

constexpr const char* kRun = "mem://bucket/run";

CheckpointManager manager_of(MemoryStore& store, int keep = 2) {
  return CheckpointManager(kRun, {.fs = &store, .keep_checkpoint_max = keep});
}

std::vector<std::string> names_in(MemoryStore& store) {
  const auto names = store.list_directory(kRun);
  return names.value_or({});
}

TEST(StoreCheckpoints, AreSavedKeptAndFound) {
  MemoryStore store;
  auto manager = manager_of(store);
  EXPECT_FALSE(manager.latest()) << "a bucket in which nothing was written yet";
  manager.ensure_writable();
  EXPECT_TRUE(store.objects().empty()) << "the trial is taken away";
  for (const int64_t step : {1, 2, 3}) manager.save(make_checkpoint(step));
  EXPECT_THAT(names_in(store),
              ElementsAre("checkpoint", "model.ckpt-2.safetensors", "model.ckpt-3.safetensors"));
  EXPECT_EQ(manager.latest(), "mem://bucket/run/model.ckpt-3");
  EXPECT_TRUE(same(manager.load_latest()->checkpoint, make_checkpoint(3)));
}

// Before whichever request of a save the program is killed, a program that looks later finds a
// whole checkpoint, the old one or the new one, and continues to save.
TEST(StoreCheckpoints, KilledAtAnyRequest) {
  int64_t at = 0;
  for (bool killed = true; killed; ++at) {
    MemoryStore store;
    manager_of(store).save(make_checkpoint(1));
    manager_of(store).save(make_checkpoint(2));
    store.set_plan({.fail_from = at});
    bool saved = true;
    try {
      manager_of(store).save(make_checkpoint(3));
    } catch (const Error&) {
      saved = false;
    }
    killed = store.requests() > at;
    store.set_plan({});
    const auto loaded = manager_of(store).load_latest();
    ASSERT_TRUE(loaded) << at;
    EXPECT_TRUE(loaded->skipped.empty()) << at;
    if (saved) {
      EXPECT_EQ(loaded->checkpoint.global_step, 3) << at;
    }
    EXPECT_TRUE(same(loaded->checkpoint, make_checkpoint(loaded->checkpoint.global_step))) << at;
    EXPECT_GE(loaded->checkpoint.global_step, 2) << at;
    manager_of(store).save(make_checkpoint(4));
    manager_of(store).save(make_checkpoint(5));
    EXPECT_EQ(manager_of(store).load_latest()->checkpoint.global_step, 5) << at;
    EXPECT_THAT(names_in(store),
                ::testing::IsSupersetOf({"model.ckpt-4.safetensors", "model.ckpt-5.safetensors"}))
        << at;
  }
  EXPECT_GE(at, 3);
}

// A request that fails once fails this save at most; earlier checkpoints are unchanged, and the
// next save leaves exactly the checkpoints to keep.
TEST(StoreCheckpoints, OneRequestThatFails) {
  int64_t requests = 0;
  for (int64_t at = 0; at == 0 || at < requests; ++at) {
    MemoryStore store;
    auto manager = manager_of(store);
    for (const int64_t step : {1, 2}) manager.save(make_checkpoint(step));
    store.set_plan({.fail_at = at});
    bool saved = true;
    try {
      manager.save(make_checkpoint(3));
    } catch (const Error& error) {
      saved = false;
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.hint(), HasSubstr("the checkpoints up to model.ckpt-2 are untouched"));
      EXPECT_THAT(error.hint(), ::testing::Not(HasSubstr("free space")));
    }
    requests = std::max(requests, store.requests());
    EXPECT_EQ(manager.load_latest()->checkpoint.global_step, saved ? 3 : 2) << at;
    manager.save(make_checkpoint(4));
    EXPECT_THAT(
        names_in(store),
        ElementsAre("checkpoint", saved ? "model.ckpt-3.safetensors" : "model.ckpt-2.safetensors",
                    "model.ckpt-4.safetensors"))
        << at;
  }
}

// Whatever request of a look fails, with the state file or without it: it is an error, or the
// newest checkpoint is found. "There is none" it never says.
TEST(StoreCheckpoints, ALookThatFailsIsNotTakenForNothing) {
  for (const bool named : {true, false}) {
    MemoryStore store;
    manager_of(store).save(make_checkpoint(1));
    manager_of(store).save(make_checkpoint(2));
    if (!named) store.remove(std::string(kRun) + "/checkpoint").value();
    const auto read_newest = [&]() -> std::optional<int64_t> {
      const auto loaded = manager_of(store).load_latest();
      return loaded ? std::optional(loaded->checkpoint.global_step) : std::nullopt;
    };
    for (const auto& look : std::vector<std::function<std::optional<int64_t>()>>{
             read_newest,
             [&]() -> std::optional<int64_t> {
               const auto latest = manager_of(store).latest();
               return latest ? std::optional(checkpoint_step(*latest)) : std::nullopt;
             },
             [&]() -> std::optional<int64_t> {
               const auto existing = manager_of(store).existing();
               return existing.empty() ? std::nullopt
                                       : std::optional(checkpoint_step(existing.back()));
             }}) {
      int64_t at = 0;
      do {
        store.set_plan({.fail_at = at, .writes_only = false});
        try {
          EXPECT_EQ(look(), 2) << at;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << at << ": " << error.what();
        }
      } while (store.requests() > at++);
      store.set_plan({});
      EXPECT_EQ(look(), 2);
    }
  }
}

TEST(StoreCheckpoints, ASaveThatCannotLookSaysThatItIsASave) {
  MemoryStore store;
  store.set_plan({.fail_from = 0, .writes_only = false});
  const Error error = error_of([&] { manager_of(store).save(make_checkpoint(1)); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(),
              HasSubstr("cannot save the checkpoint 'mem://bucket/run/model.ckpt-1'"));
}

TEST(StoreCheckpoints, ABucketThatForbidsIsToldBeforeTheRun) {
  MemoryStore store;
  store.set_plan({.fail_from = 0, .kind = ErrorKind::kInvalidArgument});
  const Error error = error_of([&] { manager_of(store).ensure_writable(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              HasSubstr("cannot write checkpoints to model_dir 'mem://bucket/run'"));
  EXPECT_FALSE(error.hint().empty());
}

TEST(StoreCheckpoints, LeasesKeepThem) {
  MemoryStore store;
  auto manager = manager_of(store, 1);
  manager.save(make_checkpoint(1));
  {
    const Lease lease(kRun, "evaluator", {.holder = "evaluator:0", .pinned = {"model.ckpt-1"}},
                      {.fs = &store});
    manager.save(make_checkpoint(2));
    EXPECT_THAT(names_in(store),
                ElementsAre("checkpoint", "evaluator.lease", "model.ckpt-1.safetensors",
                            "model.ckpt-2.safetensors"));
  }
  manager.save(make_checkpoint(3));
  EXPECT_THAT(names_in(store), ElementsAre("checkpoint", "model.ckpt-3.safetensors"));
}

// A checkpoint whose rows lie in one part, which is written.
Checkpoint in_one_part(MemoryStore& store, int64_t step) {
  Checkpoint own = make_checkpoint(step);
  own.parts =
      write_checkpoint_part(store, std::string(kRun) + "/" + checkpoint_part_name(step, 0, 1, 7),
                            {{"dense/kernel", own.tensors.at("dense/kernel")}});
  own.tensors.erase("dense/kernel");
  return own;
}

// The file arrives, but its answer does not: no checkpoint is left that lacks its parts, whether
// the store answers from then on or not.
TEST(StoreCheckpoints, AFileWhoseAnswerIsLostDoesNotLackItsParts) {
  const std::string file = std::string(kRun) + "/model.ckpt-3.safetensors";
  MemoryStore other;
  manager_of(other).save(in_one_part(other, 3));
  const std::string content = other.read_file(file).value();
  for (const bool recovers : {true, false}) {
    MemoryStore store;
    const Checkpoint checkpoint = in_one_part(store, 3);
    bool arriving = false;
    StorePlan plan{.only = [&](const std::string& path) { return path == file && !arriving; }};
    (recovers ? plan.fail_at : plan.fail_from) = 0;
    store.set_plan(plan);
    store.on_request([&](int64_t number, const std::string&) {
      if (number > 0) return;
      arriving = true;
      store.write_atomically(file, content).value();
      arriving = false;
    });
    EXPECT_THROW(manager_of(store).save(checkpoint), Error);
    store.on_request(nullptr);
    store.set_plan({});
    // A later program finds no checkpoint, or a whole one.
    const auto loaded = manager_of(store).load_latest();
    EXPECT_EQ(loaded.has_value(), !recovers);
    if (loaded) {
      EXPECT_TRUE(same(loaded->checkpoint, make_checkpoint(3)));
    }
  }
}

// A store that does not say for a while which leases there are holds none of them worthless.
TEST(StoreCheckpoints, NothingIsDeletedWhileLeasesCannotBeRead) {
  for (const std::string& unreadable : {std::string(kRun), std::string(kRun) + "/reader.lease"}) {
    MemoryStore store;
    manager_of(store).save(make_checkpoint(1));
    const Lease lease(kRun, "reader", {.holder = "a reader", .pinned = {"model.ckpt-1"}},
                      {.fs = &store, .beat = std::chrono::hours(24)});
    ManualClock clock;
    LeasedCheckpoints leased(kRun, store, clock);
    store.set_plan({.fail_at = 0, .writes_only = false, .only = [&](const std::string& path) {
                      return path == unreadable;
                    }});
    leased.look();
    EXPECT_TRUE(leased.hold("model.ckpt-1")) << unreadable;
    leased.look();
    EXPECT_TRUE(leased.hold("model.ckpt-1"));
    EXPECT_FALSE(leased.hold("model.ckpt-2")) << "it could be read now";
  }
}

}  // namespace
}  // namespace muster::inline v0_1
