// The requests of a reader to a service, as docs/buckets.md documents them.
#include "muster/stores/internal/object_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "muster/stores/internal/for_tests.h"
#include "tests/support/s3_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::ObjectInfo;
using internal::RangeRead;
using ::testing::ElementsAre;
using ::testing::Pair;

// Returns zeros, and records its requests. While it is held, no answer comes.
class ZeroSource : public internal::ObjectSource {
 public:
  struct Log {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<uint64_t, size_t> asked;  // the sizes, by their offsets
    bool held = false;
  };
  explicit ZeroSource(Log& log) : log_(log) {}
  Result<RangeRead> read(const internal::ObjectName&, const std::string&, uint64_t offset,
                         MutableBytes out, internal::Cancellation*) override {
    std::unique_lock lock(log_.mutex);
    log_.asked[offset] = out.size();
    log_.changed.notify_all();
    log_.changed.wait(lock, [&] { return !log_.held; });
    std::ranges::fill(out, std::byte{0});
    return RangeRead{.bytes = out.size(), .info = {}};
  }

 private:
  Log& log_;
};

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;

struct Reading {
  explicit Reading(uint64_t size)
      : transfers(std::make_shared<internal::Transfers>(std::make_unique<ZeroSource>(log),
                                                        StoreOptions())),
        reader(transfers, {"s3", "b", "f"}, "s3://b/f", ObjectInfo{.size = size},
               std::string(256 * kKiB, '\0')) {}
  void read(uint64_t offset, size_t bytes) {
    std::string buffer(bytes, 'x');
    EXPECT_EQ(reader.read_at(offset, std::as_writable_bytes(std::span(buffer))).value(), bytes);
  }
  // Waits until `count` requests were made.
  std::map<uint64_t, size_t> asked(size_t count) {
    std::unique_lock lock(log.mutex);
    EXPECT_TRUE(log.changed.wait_for(lock, std::chrono::seconds(60),
                                     [&] { return log.asked.size() >= count; }));
    return log.asked;
  }
  void hold(bool held) {
    const std::lock_guard lock(log.mutex);
    log.held = held;
    log.changed.notify_all();
  }

  ZeroSource::Log log;
  std::shared_ptr<internal::Transfers> transfers;
  internal::ObjectReader reader;
};

TEST(ObjectReader, AsksAsTheDocumentsSay) {
  {
    Reading jumps(1000 * kMiB);
    jumps.read(1000, 5000);  // came with the opening
    jumps.read(500 * kMiB, 10);
    jumps.read(600 * kMiB, 100 * kKiB);
    EXPECT_THAT(jumps.asked(2),
                ElementsAre(Pair(500 * kMiB, 64 * kKiB), Pair(600 * kMiB, 100 * kKiB)));
  }
  {
    // A large read goes directly to its destination, in blocks.
    Reading large(1000 * kMiB);
    large.read(500 * kMiB, 20 * kMiB);
    EXPECT_THAT(large.asked(3), ElementsAre(Pair(500 * kMiB, 8 * kMiB), Pair(508 * kMiB, 8 * kMiB),
                                            Pair(516 * kMiB, 4 * kMiB)));
  }
}

// Blocks of one size that share a line would end together, and the line would stand still for a
// round trip: no two of the first blocks have the same size. Their number is the documented one,
// and they take no more memory.
TEST(ObjectReader, BlocksThatAreFetchedTogetherDiffer) {
  Reading on(1000 * kMiB);
  on.read(0, 256 * kKiB);
  on.hold(true);
  std::thread reads([&] { on.read(256 * kKiB, 1); });
  const std::map<uint64_t, size_t> asked = on.asked(12);
  on.hold(false);
  reads.join();
  ASSERT_EQ(asked.size(), 12u);
  std::set<size_t> sizes;
  uint64_t end = 256 * kKiB;
  for (const auto& [offset, size] : asked) {
    EXPECT_EQ(offset, end);
    end += size;
    sizes.insert(size);
  }
  EXPECT_EQ(sizes.size(), 12u);
  EXPECT_EQ(*sizes.begin(), 8 * kMiB / 12);
  EXPECT_LE(*sizes.rbegin(), 8 * kMiB);
  EXPECT_LE(on.transfers->held_ahead.load(), 96 * kMiB);
}

TEST(OpeningTest, CostsOneRequest) {
  S3StandIn service;
  service.objects()["f"] = internal::random_bytes(300 * kKiB);
  S3Options options = S3Options::from(service.environment());
  const auto files = make_s3_store(options);
  const auto reader = files->open_reader("s3://bucket/f").value();
  std::string buffer(256 * kKiB, '\0');
  EXPECT_EQ(reader->read_at(0, std::as_writable_bytes(std::span(buffer))).value(), buffer.size());
  EXPECT_EQ(buffer, service.objects()["f"].substr(0, buffer.size()));
  EXPECT_EQ(service.server().requests().size(), 1u);
}

}  // namespace
}  // namespace muster::inline v0_1::stores
