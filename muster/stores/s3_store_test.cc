// S3 against a stand-in that checks signatures and fails on purpose. The real protocol of a server
// that others wrote: tests/stores.
#include "muster/stores/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/aws_signature.h"
#include "muster/stores/internal/for_tests.h"
#include "muster/stores/internal/http_client.h"
#include "tests/support/s3_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::random_bytes;
using internal::what;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using namespace std::chrono_literals;

class S3StoreTest : public ::testing::Test {
 protected:
  S3StandIn service_;
  std::unique_ptr<FileSystem> files_ = internal::quick_s3_store(service_.environment());
};

TEST_F(S3StoreTest, WhatWasWrittenIsRead) {
  for (const size_t size : {0, 1, 1000, 300'000, 3'000'000}) {
    const std::string content = random_bytes(size);
    const std::string path = "s3://bucket/a b/ü+%&?#/" + std::to_string(size);
    ASSERT_EQ(what(files_->write_atomically(path, content)), "");
    EXPECT_EQ(files_->read_file(path).value(), content);
    EXPECT_EQ(files_->file_size(path).value(), size);
    EXPECT_EQ(service_.objects().at("a b/ü+%&?#/" + std::to_string(size)), content);
  }
  EXPECT_EQ(service_.open_uploads(), 0u);
}

TEST_F(S3StoreTest, ReadsOfEveryKindGiveTheBytes) {
  const std::string content = random_bytes(2'000'000);
  service_.objects()["f"] = content;
  const auto reader = files_->open_reader("s3://bucket/f").value();
  EXPECT_EQ(reader->size().value(), content.size());
  Random random(derive_key(7, {}));
  std::string buffer;
  for (int turn = 0; turn < 200; ++turn) {
    const size_t offset = random.uniform_below(content.size() + 10);
    buffer.resize(random.uniform_below(turn % 10 == 0 ? 400'000 : 5'000));
    const size_t got = reader->read_at(offset, std::as_writable_bytes(std::span(buffer))).value();
    ASSERT_EQ(buffer.substr(0, got),
              content.substr(std::min(offset, content.size()), buffer.size()));
  }
}

TEST_F(S3StoreTest, ManyThreadsShareAReader) {
  const std::string content = random_bytes(1'500'000);
  service_.objects()["f"] = content;
  const auto reader = files_->open_reader("s3://bucket/f").value();
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      std::string buffer(10'000 + 1'000 * static_cast<size_t>(thread), '\0');
      for (size_t at = 0; at < content.size();) {
        const auto got = reader->read_at(at, std::as_writable_bytes(std::span(buffer)));
        if (!got.ok() || content.compare(at, got.value(), buffer, 0, got.value()) != 0) {
          wrong.fetch_add(1);
          return;
        }
        at += got.value();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong.load(), 0);
}

// Sequential reading fetches the next blocks at the same time; jumping does not.
TEST_F(S3StoreTest, ReadsAheadOfWhoeverReadsOn) {
  service_.objects()["f"] = random_bytes(2'000'000);
  service_.server().fail({.only = "GET", .delay = 20ms}, 1000);
  std::string buffer(20'000, '\0');
  {
    const auto reader = files_->open_reader("s3://bucket/f").value();
    for (size_t at = 1'000'000; at > 200'000; at -= 150'000)
      ASSERT_TRUE(reader->read_at(at, std::as_writable_bytes(std::span(buffer))).ok());
    EXPECT_EQ(service_.server().most_at_once(), 1);
  }
  // On a busy machine one may be answered before the next is asked for.
  for (int attempt = 0; attempt < 10 && service_.server().most_at_once() < 3; ++attempt) {
    const auto reader = files_->open_reader("s3://bucket/f").value();
    for (size_t at = 0; at < 2'000'000; at += buffer.size())
      ASSERT_TRUE(reader->read_at(at, std::as_writable_bytes(std::span(buffer))).ok());
  }
  EXPECT_GE(service_.server().most_at_once(), 3);
  EXPECT_LE(service_.server().most_at_once(), 5);
}

TEST_F(S3StoreTest, FaultsOfTheServerAndTheNetworkAreSurvived) {
  const std::string content = random_bytes(1'000'000);
  WebServer& server = service_.server();
  const std::vector<WebFault> faults = {
      {.status = 500},
      {.status = 503, .body = "<Error><Code>SlowDown</Code></Error>"},
      {.status = 429},
      {.status = 400, .body = "<Error><Code>RequestTimeout</Code></Error>"},
      {.lie = nullptr, .cut_after = 0},
      {.lie = nullptr, .cut_after = 20'000},
      {.delay = 5ms}};
  for (const WebFault& fault : faults) {
    for (int time = 0; time < 4; ++time) server.fail(fault);
    ASSERT_EQ(what(files_->write_atomically("s3://bucket/f", content)), "");
    for (int time = 0; time < 4; ++time) server.fail(fault);
    const auto read = files_->read_file("s3://bucket/f");
    ASSERT_TRUE(read.ok()) << read.error().what();
    EXPECT_EQ(read.value(), content);
  }
}

// What breaks is continued, not begun again: else a server that always cuts would never be read.
TEST_F(S3StoreTest, ATransferThatBreaksGoesOnBehindWhatCame) {
  const std::string content = random_bytes(60'000);
  service_.objects()["f"] = content;
  service_.server().fail({.only = "GET", .cut_after = 16 << 10}, 1000);
  const auto read = files_->read_file("s3://bucket/f");
  ASSERT_TRUE(read.ok()) << read.error().what();
  EXPECT_EQ(read.value(), content);
  EXPECT_THAT(service_.server().requests("GET"), SizeIs(::testing::Le(6u)));
}

TEST_F(S3StoreTest, AFileThatIsReplacedWhileItIsReadIsAnError) {
  service_.objects()["f"] = random_bytes(2'000'000, 1);
  const auto reader = files_->open_reader("s3://bucket/f").value();
  service_.objects()["f"] = random_bytes(2'000'000, 2);
  std::string buffer(10'000, '\0');
  const auto read = reader->read_at(1'500'000, std::as_writable_bytes(std::span(buffer)));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(read.error().what(), HasSubstr("'s3://bucket/f' was replaced while it was read"));
}

// The same where the server does not look at If-Match.
TEST_F(S3StoreTest, AnswersOfAnotherVersionOrRangeAreNotBelieved) {
  service_.objects()["f"] = random_bytes(2'000'000);
  const auto answer_when = [&](std::function<void(httplib::Response&)> lie) {
    const auto reader = files_->open_reader("s3://bucket/f").value();
    service_.server().fail({.only = "GET", .lie = std::move(lie)});
    std::string buffer(10'000, '\0');
    const auto read = reader->read_at(1'500'000, std::as_writable_bytes(std::span(buffer)));
    return read.ok() ? "" : std::string(read.error().what());
  };
  EXPECT_THAT(answer_when([](httplib::Response& response) {
                response.headers.erase("ETag");
                response.set_header("ETag", "\"other\"");
              }),
              HasSubstr("was replaced"));
  EXPECT_THAT(answer_when([](httplib::Response& response) {
                response.headers.erase("Content-Range");
                response.set_header("Content-Range", "bytes 0-65535/2000000");
              }),
              HasSubstr("but was asked for bytes from 1500000"));
  EXPECT_THAT(answer_when([](httplib::Response& response) { response.body += "more"; }),
              HasSubstr("more bytes than were asked for"));
  EXPECT_THAT(answer_when([](httplib::Response& response) { response.status = 200; }),
              HasSubstr("the whole instead of a range"));
}

TEST_F(S3StoreTest, BytesThatChangedOnTheWayAreSeen) {
  service_.objects()["f"] = random_bytes(500'000);
  service_.server().fail({.only = "GET", .lie = [](httplib::Response& response) {
                            response.body[response.body.size() / 2] ^= 1;
                          }});
  const auto read = files_->read_file("s3://bucket/f");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(read.error().what(), HasSubstr("do not have the checksum"));
}

TEST_F(S3StoreTest, NothingIsVisibleBeforeTheCommit) {
  service_.objects()["f"] = "before";
  const std::string content = random_bytes(1'000'000);
  for (const bool commits : {false, true}) {
    auto writer = files_->open_staged("s3://bucket/f").value();
    ASSERT_EQ(what(writer->append(bytes_of(content))), "");
    ASSERT_EQ(what(writer->sync()), "");
    EXPECT_EQ(service_.objects().at("f"), "before");
    EXPECT_EQ(service_.open_uploads(), 1u);
    if (commits) {
      EXPECT_EQ(what(writer->commit()), "");
      EXPECT_EQ(service_.objects().at("f"), content);
      EXPECT_FALSE(writer->append(bytes_of("x")).ok());
    } else {
      EXPECT_EQ(what(writer->discard()), "");
    }
    EXPECT_EQ(service_.open_uploads(), 0u);
  }
}

TEST_F(S3StoreTest, AWriteThatFailsLeavesWhatWasThere) {
  service_.objects()["f"] = "before";
  service_.server().fail(
      {.only = "partNumber=2", .status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"});
  const Status written = files_->write_atomically("s3://bucket/f", random_bytes(1'000'000));
  EXPECT_THAT(what(written), HasSubstr("part 2 of 's3://bucket/f'"));
  EXPECT_EQ(service_.objects().at("f"), "before");
  EXPECT_EQ(service_.open_uploads(), 0u);
}

// The answer to "complete" gets lost, and the second one finds no such upload.
TEST_F(S3StoreTest, ACommitWhoseAnswerIsLostIsFound) {
  const std::string content = random_bytes(1'000'000);
  service_.server().fail({.only = "POST /bucket/f?uploadId", .lie = nullptr, .cut_after = 0});
  EXPECT_EQ(what(files_->write_atomically("s3://bucket/f", content)), "");
  EXPECT_EQ(service_.objects().at("f"), content);
}

TEST_F(S3StoreTest, AnErrorBehindAStatusOf200IsSeen) {
  service_.server().fail({.only = "POST /bucket/f?uploadId",
                          .status = 200,
                          .body = "<Error><Code>InternalError</Code></Error>"});
  EXPECT_EQ(what(files_->write_atomically("s3://bucket/f", random_bytes(1'000'000))), "");
  EXPECT_THAT(service_.server().requests("POST /bucket/f?uploadId"), SizeIs(2));
}

// Whatever the request, 200 is not a success where the body is an error: what would pass is tried
// again, what would not is told.
TEST_F(S3StoreTest, ABodyThatIsAnErrorIsNoSuccess) {
  const std::string large = random_bytes(1'000'000);
  service_.objects()["from"] = "x";
  struct Try {
    const char* only{};
    std::function<Status()> write{};
  };
  const std::vector<Try> tries = {
      {"PUT /bucket/small", [&] { return files_->write_atomically("s3://bucket/small", "few"); }},
      {"POST /bucket/f?uploads", [&] { return files_->write_atomically("s3://bucket/f", large); }},
      {"PUT /bucket/f?partNumber",
       [&] { return files_->write_atomically("s3://bucket/f", large); }},
      {"POST /bucket/f?uploadId", [&] { return files_->write_atomically("s3://bucket/f", large); }},
      {"PUT /bucket/to", [&] { return files_->rename("s3://bucket/from", "s3://bucket/to"); }},
      {"DELETE /bucket/to", [&] { return files_->remove("s3://bucket/to"); }},
      {"POST /bucket?delete", [&] {
         service_.objects()["d/a"] = "1";
         return files_->remove_tree("s3://bucket/d");
       }}};
  for (const auto& [only, write] : tries) {
    for (const char* code : {"InternalError", "SlowDown", "ServiceUnavailable"}) {
      service_.server().forget_requests();
      service_.objects()["from"] = "x";
      service_.objects()["to"] = "y";
      service_.server().fail({.only = only,
                              .status = 200,
                              .body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" +
                                      std::string(code) +
                                      "</Code><Message>Try again.</Message></Error>"});
      EXPECT_EQ(what(write()), "") << only;
      EXPECT_THAT(service_.server().requests(only), SizeIs(::testing::Ge(2u))) << only << code;
    }
    service_.objects()["from"] = "x";
    service_.objects()["to"] = "y";
    service_.server().fail(
        {.only = only,
         .status = 200,
         .body = "<Error><Code>AccessDenied</Code><Message>No.</Message></Error>"});
    const Status refused = write();
    ASSERT_FALSE(refused.ok()) << only;
    EXPECT_EQ(refused.error().kind(), ErrorKind::kInvalidArgument) << only;
    EXPECT_THAT(refused.error().what(), HasSubstr("AccessDenied (No.)")) << only;
  }
  EXPECT_EQ(service_.objects().at("small"), "few");
  EXPECT_TRUE(service_.objects().at("f") == large);
}

// One of many that could not be removed is busy, or will never be.
TEST_F(S3StoreTest, AnErrorOfOneOfManyIsThatError) {
  service_.objects()["d/a"] = "1";
  for (const auto& [code, kind] : {std::pair{"InternalError", ErrorKind::kUnavailable},
                                   std::pair{"AccessDenied", ErrorKind::kInvalidArgument}}) {
    service_.server().fail({.only = "POST /bucket?delete",
                            .status = 200,
                            .body = "<DeleteResult><Error><Key>d/a</Key><Code>" +
                                    std::string(code) + "</Code></Error></DeleteResult>"});
    const Status removed = files_->remove_tree("s3://bucket/d");
    ASSERT_FALSE(removed.ok());
    EXPECT_EQ(removed.error().kind(), kind);
    EXPECT_THAT(removed.error().what(), AllOf(HasSubstr("s3://bucket/d/a"), HasSubstr(code)));
  }
}

// The status comes before the work: an answer that ends early says nothing of the end.
TEST_F(S3StoreTest, AnAnswerWithoutAResultIsNoCommit) {
  const std::string content = random_bytes(600'000);
  for (const char* body : {"", "<CompleteMultipartUploadResult><ETag>\"1"}) {
    service_.server().fail({.only = "POST /bucket/f?uploadId", .status = 200, .body = body});
    ASSERT_EQ(what(files_->write_atomically("s3://bucket/f", content)), "");
    EXPECT_TRUE(service_.objects()["f"] == content);
    service_.objects().clear();
  }
}

// What lies there has as many parts, but it is not what was sent.
TEST_F(S3StoreTest, AnUploadThatWasTakenAwayIsNotTakenForFinished) {
  ASSERT_EQ(what(files_->write_atomically("s3://bucket/f", random_bytes(600'000, 1))), "");
  service_.server().fail({.only = "POST /bucket/f?uploadId", .status = 503});
  service_.server().fail({.only = "POST /bucket/f?uploadId",
                          .status = 404,
                          .body = "<Error><Code>NoSuchUpload</Code></Error>"});
  EXPECT_THAT(what(files_->write_atomically("s3://bucket/f", random_bytes(600'000, 2))),
              HasSubstr("NoSuchUpload"));
}

// A list that was cut off must not pass for a short one.
TEST_F(S3StoreTest, AListThatIsCutOffIsAnError) {
  const std::string entry = "<Contents><Key>d/a</Key><Size>1</Size></Contents>";
  for (const std::string& body :
       {"<ListBucketResult>" + entry + "<Contents><Key>d/b",
        "<ListBucketResult><IsTruncated>true</IsTruncated>" + entry + "</ListBucketResult>"}) {
    service_.server().fail({.only = "list-type", .status = 200, .body = body});
    EXPECT_FALSE(files_->list_directory("s3://bucket/d").ok()) << body;
  }
}

// Some services live below a path, which is not part of the host.
TEST_F(S3StoreTest, EndpointsBelowAPathAreSignedAsTheyAreSent) {
  std::string sent;
  std::string expected;
  ManualClock clock({.sleep_advances = true});
  WebServer server([&](const httplib::Request& request, httplib::Response& response) {
    const std::string path = request.target.substr(request.target.find("/base/"));
    const auto headers = internal::sign(
        {.method = "GET",
         .host = request.get_header_value("Host"),
         .path = path,
         .query = "",
         .headers = {{"range", request.get_header_value("Range")}},
         .payload_hash = request.get_header_value("x-amz-content-sha256")},
        {S3StandIn::kKey, S3StandIn::kSecret, ""}, "us-east-1", "s3", clock.wall_seconds());
    expected = path + " " + headers.back();
    sent = "/base/bucket/f authorization: " + request.get_header_value("authorization");
    response.body = "x";
  });
  S3Options options =
      S3Options::from(service_.environment().with("AWS_ENDPOINT_URL", server.url() + "/base/"));
  options.limits = internal::quick_limits();
  options.limits.clock = &clock;
  EXPECT_EQ(make_s3_store(options)->read_file("s3://bucket/f").value(), "x");
  EXPECT_EQ(sent, expected);
}

TEST_F(S3StoreTest, PartsGoBesideEachOther) {
  service_.server().fail({.only = "PUT", .delay = 20ms}, 1000);
  // On a busy machine one may be answered before the next is sent.
  for (int attempt = 0; attempt < 10 && service_.server().most_at_once() < 3; ++attempt)
    EXPECT_EQ(what(files_->write_atomically("s3://bucket/f", random_bytes(3'000'000))), "");
  EXPECT_GE(service_.server().most_at_once(), 3);
  EXPECT_LE(service_.server().most_at_once(), 4);
}

TEST_F(S3StoreTest, AFileThatGrowsIsWholeAtEachFlush) {
  for (const bool copies_parts : {true, false}) {
    service_.set_part_copy(copies_parts);
    service_.objects().erase("log");
    std::string expected;
    for (int session = 0; session < 2; ++session) {
      auto writer = files_->open_writer("s3://bucket/log").value();
      EXPECT_EQ(service_.objects().at("log"), expected) << "opening changes nothing";
      // The third goes beyond what is sent as a whole.
      for (const size_t size : {10, 100'000, 5'300'000, 70}) {
        const std::string more = random_bytes(size);
        ASSERT_EQ(what(writer->append(bytes_of(more))), "");
        EXPECT_EQ(service_.objects().at("log"), expected) << "not before the flush";
        expected += more;
        ASSERT_EQ(what(writer->flush()), "");
        ASSERT_TRUE(service_.objects().at("log") == expected);
      }
      ASSERT_EQ(what(writer->close()), "");
      EXPECT_FALSE(writer->append(bytes_of("x")).ok());
    }
    EXPECT_EQ(service_.open_uploads(), 0u);
  }
}

// The flush was done, and neither its answer nor the look after it came: the next one finds that
// out, and continues.
TEST_F(S3StoreTest, AFlushThatWasDoneAllTheSameIsFound) {
  const std::string content = random_bytes(5'300'000);
  service_.objects()["log"] = content;
  auto writer = files_->open_writer("s3://bucket/log").value();
  const auto flush_in_vain = [&] {
    service_.server().fail({.only = "POST /bucket/log?uploadId", .lie = nullptr, .cut_after = 0});
    service_.server().fail({.only = "HEAD /bucket/log", .status = 403});
    EXPECT_FALSE(writer->flush().ok());
  };
  ASSERT_EQ(what(writer->append(bytes_of("one "))), "");
  flush_in_vain();
  EXPECT_EQ(service_.objects().at("log").size(), content.size() + 4) << "it was done";
  ASSERT_EQ(what(writer->append(bytes_of("two"))), "");
  EXPECT_EQ(what(writer->flush()), "");
  EXPECT_TRUE(service_.objects().at("log") == content + "one two");
  // What somebody else wrote is not taken for it.
  ASSERT_EQ(what(writer->append(bytes_of("mine"))), "");
  flush_in_vain();
  service_.objects()["log"] = content + "one twoours";
  EXPECT_THAT(what(writer->flush()), HasSubstr("was written by another program"));
}

TEST_F(S3StoreTest, AFlushThatFailsLosesNothing) {
  auto writer = files_->open_writer("s3://bucket/log").value();
  ASSERT_EQ(what(writer->append(bytes_of("one "))), "");
  ASSERT_EQ(what(writer->flush()), "");
  ASSERT_EQ(what(writer->append(bytes_of("two"))), "");
  service_.server().fail({.only = "PUT", .status = 403});
  EXPECT_FALSE(writer->flush().ok());
  EXPECT_EQ(service_.objects().at("log"), "one ");
  EXPECT_EQ(what(writer->flush()), "");
  EXPECT_EQ(service_.objects().at("log"), "one two");
}

TEST_F(S3StoreTest, DirectoriesAreWhatKeysHaveInFront) {
  service_.objects() = {{"a/b/1", "x"}, {"a/b/2", "x"}, {"a/c", "x"},  {"a/c/d", "x"},
                        {"a/", ""},     {"ab", "x"},    {"empty/", ""}};
  EXPECT_THAT(files_->list_directory("s3://bucket/a").value(), ElementsAre("b", "c"));
  EXPECT_THAT(files_->list_directory("s3://bucket/a/b/").value(), ElementsAre("1", "2"));
  EXPECT_THAT(files_->list_directory("s3://bucket").value(), ElementsAre("a", "ab", "empty"));
  EXPECT_THAT(files_->list_directory("s3://bucket/empty").value(), ElementsAre());
  const auto entries = files_->list_entries("s3://bucket/a/b").value();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].info.size, files_->file_size("s3://bucket/a/b/" + entries[0].name).value());
  EXPECT_EQ(entries[0].info.modified_seconds, 1769860800.5);
  EXPECT_TRUE(files_->list_entries("s3://bucket").value().at(0).info.is_directory);
  EXPECT_EQ(files_->list_directory("s3://bucket/none").error().kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(files_->info("s3://bucket/a").value().is_directory);
  EXPECT_TRUE(files_->info("s3://bucket").value().is_directory);
  EXPECT_FALSE(files_->info("s3://bucket/ab").value().is_directory);
  EXPECT_EQ(files_->info("s3://bucket/ab").value().modified_seconds, 784111777);
  EXPECT_FALSE(files_->exists("s3://bucket/none").value());
  EXPECT_EQ(what(files_->make_directories("s3://bucket/new/one")), "");
  EXPECT_THAT(what(files_->make_directories("s3://other/new")),
              AllOf(HasSubstr("NoSuchBucket"), HasSubstr("there is no bucket 'other'")));
  EXPECT_THAT(files_->open_reader("s3://bucket/a/b").error().what(), HasSubstr("is a directory"));
  EXPECT_THAT(what(files_->remove("s3://bucket/a/b")), HasSubstr("not empty"));
  EXPECT_EQ(what(files_->remove("s3://bucket/empty")), "");
  EXPECT_EQ(files_->remove("s3://bucket/empty").error().kind(), ErrorKind::kNotFound);
}

// No path names them, so that a copy lacks them: that is said.
TEST_F(S3StoreTest, ObjectsThatAreLeftOutOfAListAreNamed) {
  service_.objects() = {{"left/c", "x"}, {"left/c/d", "x"}, {"out//e", "x"}};
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(files_->list_directory("s3://bucket/left").value(), ElementsAre("c"));
  EXPECT_THAT(files_->list_directory("s3://bucket/out").value(), ElementsAre());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("'s3://bucket/left/c/'"), HasSubstr("'s3://bucket/out//'")));
}

TEST_F(S3StoreTest, ListsAndRemovesMoreThanAPage) {
  for (int i = 0; i < 2500; ++i) service_.objects()["d/" + std::to_string(i)] = "x";
  service_.objects()["d2"] = "stays";
  EXPECT_THAT(files_->list_directory("s3://bucket/d").value(), SizeIs(2500));
  EXPECT_EQ(what(files_->remove_tree("s3://bucket/d")), "");
  EXPECT_THAT(service_.objects(), SizeIs(1));
  EXPECT_EQ(what(files_->remove_tree("s3://bucket/d")), "");
  EXPECT_THAT(what(files_->remove_tree("s3://bucket/")), HasSubstr("is a whole bucket"));
}

TEST_F(S3StoreTest, RenamesByCopying) {
  service_.objects()["from +"] = "content";
  EXPECT_EQ(what(files_->rename("s3://bucket/from +", "s3://bucket/d/to")), "");
  EXPECT_THAT(service_.objects(), ElementsAre(std::pair("d/to", "content")));
  EXPECT_EQ(files_->rename("s3://bucket/none", "s3://bucket/x").error().kind(),
            ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::inline v0_1::stores
