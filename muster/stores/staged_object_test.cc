// The memory of an upload in parts and the order of its parts, with a service that only counts.
#include "muster/stores/internal/staged_object.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/stores/internal/for_tests.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// The result of one upload.
struct Arrived {
  std::mutex mutex;
  std::map<int, std::string> parts;
  size_t bytes_now = 0;  // of parts that are being sent
  int parts_now = 0;
  size_t most_bytes = 0;          // while more than four parts were
  std::set<const void*> buffers;  // where parts lay
  bool finished = false;
};

constexpr size_t kPart = 1000;

// Parts that become larger, as in large objects.
class CountingUpload : public PartUpload {
 public:
  explicit CountingUpload(Arrived& arrived) : arrived_(arrived) {}
  size_t part_bytes(int number) const override { return kPart << std::min((number - 1) / 20, 3); }
  bool parallel() const override { return true; }
  Status send(int number, Bytes part, bool last, Cancellation&) override {
    {
      const std::lock_guard lock(arrived_.mutex);
      arrived_.bytes_now += part.size();
      if (++arrived_.parts_now > 4)
        arrived_.most_bytes = std::max(arrived_.most_bytes, arrived_.bytes_now);
      arrived_.parts[number] = text_of(part);
      if (!last) arrived_.buffers.insert(part.data());
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(2));  // the network: parts sent in parallel overlap
    const std::lock_guard lock(arrived_.mutex);
    arrived_.bytes_now -= part.size();
    --arrived_.parts_now;
    return {};
  }
  Status finish() override {
    arrived_.finished = true;
    return {};
  }
  Status abort() override { return {}; }

 private:
  Arrived& arrived_;
};

class CountingService : public ObjectService {
 public:
  explicit CountingService(Arrived& arrived) : arrived_(arrived) {}
  std::string scheme() const override { return "count"; }
  Result<std::unique_ptr<PartUpload>> begin_upload(const ObjectName&) override {
    return std::unique_ptr<PartUpload>(std::make_unique<CountingUpload>(arrived_));
  }
  Result<RangeRead> read(const ObjectName&, const std::string&, uint64_t, MutableBytes,
                         Cancellation*) override {
    return nothing();
  }
  Result<ObjectInfo> look(const ObjectName&) override { return nothing(); }
  Result<ObjectInfo> put(const ObjectName&, Bytes) override { return nothing(); }
  Result<ObjectInfo> extend(const ObjectName&, const ObjectInfo&, Bytes) override {
    return nothing();
  }
  Result<ListPage> list(const ObjectName&, const std::string&, bool, const std::string&,
                        int) override {
    return nothing();
  }
  Status remove(const ObjectName&) override { return nothing(); }
  Status remove_all(const ObjectName&, const std::vector<std::string>&) override {
    return nothing();
  }
  Status copy(const ObjectName&, const ObjectInfo&, const ObjectName&) override {
    return nothing();
  }

 private:
  static Error nothing() { return internal_error("an upload by parts asks for nothing else"); }
  Arrived& arrived_;
};

// Whatever is appended arrives, in parts of the sizes that the upload wants; of larger parts fewer
// are under way, and their memory is used again.
TEST(StagedObject, LargerPartsHoldNoMoreMemory) {
  const std::string content = random_bytes(400'000);
  for (const size_t piece : {size_t{1}, size_t{777}, size_t{5000}, content.size()}) {
    Arrived arrived;
    auto service = std::make_unique<CountingService>(arrived);
    CountingService& it = *service;
    StoreOptions limits;
    limits.part_bytes = kPart;
    limits.parts_in_flight = 12;
    const auto transfers = std::make_shared<Transfers>(std::move(service), limits);
    StagedObject object(transfers, it, {"count", "bucket", "key"});
    for (size_t at = 0; at < content.size(); at += piece)
      ASSERT_EQ(
          what(object.append(bytes_of(content).subspan(at, std::min(piece, content.size() - at)))),
          "");
    ASSERT_EQ(what(object.commit()), "");
    std::string whole;
    for (const auto& [number, part] : arrived.parts) {
      if (static_cast<size_t>(number) < arrived.parts.size()) {
        EXPECT_EQ(part.size(), kPart << std::min((number - 1) / 20, 3)) << number;
      }
      whole += part;
    }
    EXPECT_TRUE(whole == content);
    EXPECT_TRUE(arrived.finished);
    EXPECT_LE(arrived.most_bytes, 12 * kPart);
    EXPECT_LT(arrived.buffers.size(), arrived.parts.size() / 2) << "memory is used again";
  }
}

}  // namespace
}  // namespace muster::inline v0_1::stores::internal
