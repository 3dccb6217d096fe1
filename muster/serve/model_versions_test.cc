// Which versions of a folder are served, as folders come and go.
#include "muster/serve/model_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/serve/internal/test_model.h"

namespace muster::inline v0_1::serve {
namespace {

using ::testing::ElementsAre;

class ModelVersionsTest : public ::testing::Test {
 protected:
  void make(const std::string& name) { std::filesystem::create_directory(folder_ / name); }
  void remove(const std::string& name) { std::filesystem::remove(folder_ / name); }

  // Polls, and returns "12 AVAILABLE" and so on.
  std::vector<std::string> polled(ModelVersions& versions) {
    versions.poll();
    std::vector<std::string> all;
    for (const VersionStatus& status : versions.status()) {
      all.push_back(std::to_string(status.version) + " " + status.state);
    }
    return all;
  }

  std::unique_ptr<ModelVersions> versions(int keep = 1) {
    return std::make_unique<ModelVersions>(
        folder_.path(),
        [this](const std::string& folder) -> std::shared_ptr<Model> {
          ++loads_;
          if (broken_.contains(std::filesystem::path(folder).filename())) {
            throw corrupt("it is broken");
          }
          return std::make_shared<internal::TestModel>();
        },
        keep, BatcherOptions(), metrics_);
  }

  TempDirectory folder_;
  ServingMetrics metrics_;
  std::set<std::string> broken_;
  int loads_ = 0;
};

TEST_F(ModelVersionsTest, TheNewestIsServedAndOthersAreNotLoaded) {
  const auto served = versions();
  EXPECT_THAT(polled(*served), ElementsAre());
  EXPECT_EQ(served->newest(), nullptr);
  for (const char* name : {"9", "10", "007", "temp-99", "99x", "-5"}) make(name);
  EXPECT_THAT(polled(*served), ElementsAre("10 AVAILABLE"));
  EXPECT_EQ(served->newest()->version, 10);
  EXPECT_EQ(metrics_.version.load(), 10);
  make("11");
  const auto before = served->newest();
  EXPECT_THAT(polled(*served), ElementsAre("11 AVAILABLE"));
  EXPECT_THAT(polled(*served), ElementsAre("11 AVAILABLE"));
  EXPECT_EQ(loads_, 2);
  // A holder of the old version can continue to use it.
  EXPECT_EQ(before->version, 10);
  EXPECT_EQ(served->find(10), nullptr);
}

TEST_F(ModelVersionsTest, SeveralVersionsAreKept) {
  const auto served = versions(2);
  for (const char* name : {"1", "2", "3"}) make(name);
  EXPECT_THAT(polled(*served), ElementsAre("3 AVAILABLE", "2 AVAILABLE"));
  make("4");
  EXPECT_THAT(polled(*served), ElementsAre("4 AVAILABLE", "3 AVAILABLE"));
  EXPECT_EQ(served->find(3)->version, 3);
  EXPECT_EQ(loads_, 3);
}

TEST_F(ModelVersionsTest, AVersionThatCannotBeLoadedLeavesTheOneBefore) {
  const auto served = versions();
  make("1");
  polled(*served);
  make("2");
  broken_ = {"2"};
  EXPECT_THAT(polled(*served), ElementsAre("2 END", "1 AVAILABLE"));
  EXPECT_EQ(served->status().front().error, "it is broken");
  // It is tried again, but not every time.
  for (int poll = 0; poll < 20; ++poll) polled(*served);
  EXPECT_GE(loads_, 4);
  EXPECT_LE(loads_, 7);
  broken_.clear();
  for (int poll = 0; poll < 64; ++poll) polled(*served);
  EXPECT_THAT(polled(*served), ElementsAre("2 AVAILABLE"));
}

TEST_F(ModelVersionsTest, ARemovedVersionGivesWayAndTheLastStays) {
  const auto served = versions();
  make("1");
  make("2");
  EXPECT_THAT(polled(*served), ElementsAre("2 AVAILABLE"));
  remove("2");
  EXPECT_THAT(polled(*served), ElementsAre("1 AVAILABLE"));
  remove("1");
  EXPECT_THAT(polled(*served), ElementsAre("1 AVAILABLE"));
}

// A store whose folder has these versions, of which each is whole, unless the store is away.
class VersionsInAStore : public FaultFileSystem {
 public:
  VersionsInAStore() : FaultFileSystem(local_file_system()) {}
  Result<std::vector<std::string>> list_directory(const std::string&) override {
    if (requests_until_away-- == 0) return away();
    return versions;
  }
  Result<FileInfo> info(const std::string&) override {
    if (requests_until_away-- == 0) return away();
    return FileInfo();
  }

  std::vector<std::string> versions;
  int requests_until_away = -1;

 private:
  static Error away() { return Error(ErrorKind::kUnavailable, "the store is away"); }
};

TEST_F(ModelVersionsTest, ALookThatFailsIsNotTakenForNothing) {
  VersionsInAStore store;
  const auto load = [](const std::string&) { return std::make_shared<internal::TestModel>(); };
  ModelVersions served("mem://bucket/export", load, 1, BatcherOptions(), metrics_, store);
  EXPECT_THAT(polled(served), ElementsAre());
  EXPECT_FALSE(served.trouble()) << "nothing was exported yet";
  std::vector<std::string> before;
  for (const std::string version : {"1", "2"}) {
    store.versions.push_back(version);
    for (const int request : {0, 1}) {
      store.requests_until_away = request;
      EXPECT_EQ(polled(served), before);
      ASSERT_TRUE(served.trouble());
      EXPECT_EQ(served.trouble()->kind(), ErrorKind::kUnavailable);
    }
    before = {version + " AVAILABLE"};
    EXPECT_EQ(polled(served), before);
    EXPECT_FALSE(served.trouble());
  }
}

TEST_F(ModelVersionsTest, APollerFindsWhatIsNew) {
  const auto served = versions();
  served->poll_every(std::chrono::milliseconds(1));
  make("5");
  await([&] { return served->newest() != nullptr; });
  EXPECT_EQ(served->newest()->version, 5);
  EXPECT_EQ(message_of([&] { versions(0); }),
            "ModelVersions: keep is 0; at least one version is served");
}

}  // namespace
}  // namespace muster::inline v0_1::serve
