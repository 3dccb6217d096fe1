// The store of s3:// URIs against s3rver, a server of the protocol that others wrote.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/launch/child_process.h"
#include "muster/stores/s3_store.h"

namespace muster::stores {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// s3rver on a free port, with the bucket "bucket". It ends with this object.
class S3rver {
 public:
  explicit S3rver(const std::string& program) {
    const std::string log = folder_ / "log";
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    child_ = std::make_unique<launch::ChildProcess>(
        // Its lists of several pages use a cipher that OpenSSL 3 has put away.
        launch::ChildSpec{
            .argv = {"node", "--openssl-legacy-provider", program, "-d", folder_ / "data", "-a",
                     "127.0.0.1", "-p", "0", "-s", "--configure-bucket", "bucket"},
            .out = out,
            .err = out,
            .dies_with_parent = true});
    ::close(out);
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (port_.empty()) {
      const std::string said = local_file_system().read_file(log).value();
      const size_t at = said.find("127.0.0.1:");
      if (at != std::string::npos && said.find('\n', at) != std::string::npos)
        port_ = said.substr(at + 10, said.find('\n', at) - at - 10);
      if (child_->status() || std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("s3rver did not start: " + said);
      std::this_thread::sleep_for(10ms);  // until it says its port
    }
  }
  std::string url() const { return "http://127.0.0.1:" + port_; }

 private:
  TempDirectory folder_;
  std::unique_ptr<launch::ChildProcess> child_;
  std::string port_;
};

class S3rverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("MUSTER_SOURCE_DIR");
    const std::string program = std::string(source == nullptr ? "." : source) +
                                "/build/s3rver/node_modules/s3rver/bin/s3rver.js";
    if (!std::filesystem::exists(program))
      GTEST_SKIP() << "s3rver is not in build/s3rver: ./dev test installs it where npm is there";
    server_ = std::make_unique<S3rver>(program);
    S3Options options = S3Options::from({{"AWS_ENDPOINT_URL", server_->url()},
                                         {"AWS_ACCESS_KEY_ID", "S3RVER"},
                                         {"AWS_SECRET_ACCESS_KEY", "S3RVER"}});
    options.limits.block_bytes = size_t{1} << 20;
    options.limits.part_bytes = size_t{5} << 20;
    files_ = make_s3_store(options);
  }

  std::unique_ptr<S3rver> server_;
  std::unique_ptr<FileSystem> files_;
};

TEST_F(S3rverTest, FilesAreWrittenReadListedRenamedAndRemoved) {
  std::string large(12'000'000, '\0');
  Random random(derive_key(1, {}));
  for (char& byte : large) byte = static_cast<char>(random.next_u32());
  const std::string large_path = "s3://bucket/a/large";
  files_->write_atomically(large_path, large).value();
  EXPECT_TRUE(files_->read_file(large_path).value() == large);
  EXPECT_EQ(files_->read_range(large_path, 11'000'000, 10).value(), large.substr(11'000'000, 10));
  const auto reader = files_->open_reader(large_path).value();
  std::string piece(700'000, '\0');
  for (size_t at = 0; at < large.size();) {
    const size_t got = reader->read_at(at, std::as_writable_bytes(std::span(piece))).value();
    ASSERT_TRUE(large.compare(at, got, piece, 0, got) == 0);
    at += got;
  }

  files_->write_atomically("s3://bucket/a/b/ein Übel", std::string_view("x")).value();
  files_->write_atomically("s3://bucket/a/empty", std::string_view()).value();
  EXPECT_EQ(files_->file_size("s3://bucket/a/empty").value(), 0u);
  EXPECT_THAT(files_->list_directory("s3://bucket/a").value(), ElementsAre("b", "empty", "large"));
  EXPECT_TRUE(files_->info("s3://bucket/a/b").value().is_directory);
  files_->rename("s3://bucket/a/b/ein Übel", "s3://bucket/c").value();
  EXPECT_EQ(files_->read_file("s3://bucket/c").value(), "x");
  files_->remove_tree("s3://bucket/a").value();
  EXPECT_THAT(files_->list_directory("s3://bucket").value(), ElementsAre("c"));
}

// s3rver does not know checksums of writes, and ignores them.
TEST_F(S3rverTest, ContentsMayGoWithChecksums) {
  S3Options options = S3Options::from({{"AWS_ENDPOINT_URL", server_->url()},
                                       {"AWS_ACCESS_KEY_ID", "S3RVER"},
                                       {"AWS_SECRET_ACCESS_KEY", "S3RVER"},
                                       {"MUSTER_S3_UNSIGNED_HTTP", "1"}});
  options.limits.part_bytes = size_t{5} << 20;
  const auto files = make_s3_store(options);
  const std::string large(12'000'000, 'x');
  files->write_atomically("s3://bucket/small", std::string_view("x")).value();
  files->write_atomically("s3://bucket/large", large).value();
  EXPECT_EQ(files_->read_file("s3://bucket/small").value(), "x");
  EXPECT_TRUE(files_->read_file("s3://bucket/large").value() == large);
}

// s3rver copies nothing into parts: existing bytes are read and written back.
TEST_F(S3rverTest, FilesGrow) {
  const std::string large(6'000'000, 'x');
  for (int session = 0; session < 2; ++session) {
    const auto writer = files_->open_writer("s3://bucket/log").value();
    writer->append(bytes_of("begin ")).value();
    writer->flush().value();
    writer->append(bytes_of(large)).value();
    writer->close().value();
    EXPECT_EQ(files_->file_size("s3://bucket/log").value(), (session + 1) * (large.size() + 6));
  }
}

TEST_F(S3rverTest, ListsAndRemovesMoreThanAPage) {
  constexpr int kObjects = 1010;  // a page has 1,000
  std::atomic<int> next{0};
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&] {
        for (int object; (object = next++) < kObjects;)
          files_
              ->write_atomically("s3://bucket/many/" + std::to_string(object),
                                 std::string_view("x"))
              .value();
      });
    }
  }
  EXPECT_EQ(files_->list_directory("s3://bucket/many").value().size(), size_t{kObjects});
  files_->remove_tree("s3://bucket/many").value();
  EXPECT_EQ(files_->list_directory("s3://bucket/many").error().kind(), ErrorKind::kNotFound);
}

TEST_F(S3rverTest, MissingKeysAndBucketsAreReported) {
  EXPECT_THAT(files_->read_file("s3://bucket/none").error().what(), HasSubstr("NoSuchKey"));
  EXPECT_THAT(files_->read_file("s3://none/none").error().what(),
              HasSubstr("there is no bucket 'none'"));
  EXPECT_EQ(files_->info("s3://bucket/none").error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(files_->list_directory("s3://bucket/none").error().kind(), ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::stores
