// Google Cloud Storage against a stand-in that fails on purpose.
#include "muster/stores/gcs_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "muster/stores/internal/for_tests.h"
#include "tests/support/gcs_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::random_bytes;
using internal::what;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class GcsStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<FileSystem> make() {
    GcsOptions options = GcsOptions::from(service_.environment());
    options.limits = internal::quick_limits();
    return make_gcs_store(options);
  }

  GcsStandIn service_;
  const std::unique_ptr<FileSystem> files_ = make();
};

TEST_F(GcsStoreTest, WhatWasWrittenIsRead) {
  // The last two end a resumable upload within a part, and at the end of one.
  for (const size_t size : {0, 1, 1000, 3'000'000, (256 << 10) + (1 << 20)}) {
    const std::string content = random_bytes(size);
    const std::string path = "gs://bucket/a b/ü+%&?#/" + std::to_string(size);
    ASSERT_EQ(what(files_->write_atomically(path, content)), "");
    EXPECT_EQ(files_->read_file(path).value(), content);
    EXPECT_EQ(files_->file_size(path).value(), size);
    EXPECT_EQ(files_->info(path).value().modified_seconds, 1769860800.5);
  }
  EXPECT_EQ(service_.open_uploads(), 0u);
}

TEST_F(GcsStoreTest, FaultsOfTheServerAndTheNetworkAreSurvived) {
  const std::string content = random_bytes(3'000'000);
  const std::vector<WebFault> faults = {
      {.status = 500}, {.status = 503}, {.status = 429}, {.lie = nullptr, .cut_after = 0}};
  for (const WebFault& fault : faults) {
    service_.server().fail(fault, 3);
    ASSERT_EQ(what(files_->write_atomically("gs://bucket/f", content)), "");
    service_.server().fail(fault, 3);
    EXPECT_EQ(files_->read_file("gs://bucket/f").value(), content);
  }
}

// Where the service has uploads by parts, they run at the same time.
TEST_F(GcsStoreTest, PartsGoBesideEachOther) {
  service_.set_parts(true);
  const std::string content = random_bytes(3'000'000);
  service_.server().fail({.only = "PUT /bucket/", .delay = std::chrono::milliseconds(20)}, 1000);
  // On a busy machine one may be answered before the next is sent.
  for (int attempt = 0; attempt < 10 && service_.server().most_at_once() < 3; ++attempt)
    EXPECT_EQ(what(files_->write_atomically("gs://bucket/a +/f", content)), "");
  EXPECT_TRUE(service_.objects().at("a +/f").content == content);
  EXPECT_GE(service_.server().most_at_once(), 3);
  EXPECT_LE(service_.server().most_at_once(), 4);
  EXPECT_EQ(service_.open_uploads(), 0u);
}

TEST_F(GcsStoreTest, AnUploadByPartsSurvivesFaultsToo) {
  service_.set_parts(true);
  const std::string content = random_bytes(1'500'000);
  for (const WebFault& fault : std::vector<WebFault>{
           {.status = 500}, {.status = 503}, {.status = 429}, {.lie = nullptr, .cut_after = 0}}) {
    service_.server().fail(fault, 3);
    ASSERT_EQ(what(files_->write_atomically("gs://bucket/f", content)), "");
    EXPECT_TRUE(service_.objects().at("f").content == content);
    service_.objects().clear();
  }
  // The answer to the end gets lost, and the second one finds no such upload.
  service_.server().fail({.only = "POST /bucket/f?uploadId", .lie = nullptr, .cut_after = 0});
  EXPECT_EQ(what(files_->write_atomically("gs://bucket/f", content)), "");
  // Somebody has given it up, and what lies there is another object of the same size.
  service_.put("f", random_bytes(1'500'000, 2));
  const size_t lost = service_.open_uploads();  // whose begin was answered in vain
  service_.server().fail({.only = "POST /bucket/f?uploadId", .status = 404});
  EXPECT_THAT(what(files_->write_atomically("gs://bucket/f", content)), HasSubstr("NotFound"));
  EXPECT_EQ(service_.open_uploads(), lost);
}

TEST_F(GcsStoreTest, APartThatIsRefusedIsAnErrorInTheServicesWords) {
  service_.set_parts(true);
  service_.server().fail({.only = "partNumber=2",
                          .status = 403,
                          .body = "<?xml version='1.0'?><Error><Code>AccessDenied</Code>"
                                  "<Message>no, no</Message></Error>"});
  EXPECT_THAT(what(files_->write_atomically("gs://bucket/f", random_bytes(1'000'000))),
              HasSubstr("part 2 of 'gs://bucket/f': the server answers 403 AccessDenied (no, no)"));
  EXPECT_THAT(service_.objects(), SizeIs(0));
  EXPECT_EQ(service_.open_uploads(), 0u);
}

// An account that may write objects may lack the right to write parts.
TEST_F(GcsStoreTest, WhereNoPartsAreTakenAnUploadIsResumable) {
  service_.set_parts(true);
  const std::string content = random_bytes(1'500'000);
  service_.server().fail({.only = "POST /bucket/f?uploads", .status = 403});
  EXPECT_EQ(what(files_->write_atomically("gs://bucket/f", content)), "");
  EXPECT_TRUE(service_.objects().at("f").content == content);
  EXPECT_FALSE(service_.server().requests("PUT /session/").empty());
}

// A service that does not know them says so in one way or another, and is asked once.
TEST_F(GcsStoreTest, AServiceWithoutPartsIsAskedOnce) {
  service_.set_parts(true);
  const std::string content = random_bytes(1'500'000);
  for (const int status : {400, 404, 405, 501}) {
    const auto files = make();
    service_.server().forget_requests();
    service_.server().fail({.only = "?uploads", .status = status});
    for (const char* name : {"gs://bucket/f", "gs://bucket/g"})
      ASSERT_EQ(what(files->write_atomically(name, content)), "") << status;
    EXPECT_THAT(service_.server().requests("?uploads"), SizeIs(1)) << status;
  }
}

// An account that may write objects may lack the right to look at them.
TEST_F(GcsStoreTest, WhoMayOnlyWriteWritesByParts) {
  service_.set_parts(true);
  const std::string content = random_bytes(1'500'000);
  service_.server().fail({.only = "GET /storage", .status = 403});
  EXPECT_EQ(what(files_->write_atomically("gs://bucket/f", content)), "");
  EXPECT_TRUE(service_.objects().at("f").content == content);
}

// Of each chunk the service may keep a part, and say so.
TEST_F(GcsStoreTest, AnUploadGoesOnWhereTheServiceIs) {
  const std::string content = random_bytes(3'000'000);
  service_.keep_at_most(256 << 10);
  // The answer to a chunk gets lost: the store asks what arrived, and sends nothing twice.
  service_.server().fail({.only = "PUT /session/", .status = 503}, 2);
  EXPECT_EQ(what(files_->write_atomically("gs://bucket/f", content)), "");
  EXPECT_EQ(service_.objects().at("f").content, content);
}

TEST_F(GcsStoreTest, AnUploadWhoseLastAnswerIsLostIsFound) {
  const std::string content = random_bytes(300'000);
  // The first chunk, and then the last, whose answer does not come.
  service_.server().fail({.only = "PUT /session/"});
  service_.server().fail(
      {.only = "PUT /session/", .lie = [](httplib::Response& response) { response.status = 503; }});
  const Status written = files_->write_atomically("gs://bucket/f", content);
  EXPECT_EQ(service_.objects().at("f").content, content);

  EXPECT_EQ(what(written), "");
}

// A proxy that passes questions but no bytes: the client must not wait for ever.
TEST_F(GcsStoreTest, AnUploadThatGetsNowhereIsGivenUp) {
  GcsOptions options = GcsOptions::from(service_.environment());
  options.limits = internal::quick_limits();
  options.limits.retry_timeout = Seconds(0.3);
  const auto files = make_gcs_store(options);
  std::atomic<int> asked{0};
  service_.server().fail({.only = "PUT /session/",
                          .lie =
                              [&](httplib::Response& response) {
                                response.headers.clear();
                                response.body.clear();
                                // Every second request is the question.
                                response.status = asked++ % 2 == 0 ? 503 : 308;
                              }},
                         3000);
  const Status written = files->write_atomically("gs://bucket/f", random_bytes(300'000));
  EXPECT_THAT(what(written), AllOf(HasSubstr("Unavailable"), HasSubstr("gs://bucket/f")));
  EXPECT_LT(asked, 3000);
}

// The service may give a page without a name, and say that there are more.
TEST_F(GcsStoreTest, AnEmptyPageIsNotTheEnd) {
  for (const char* name : {"d/a", "d/b"}) service_.put(name, "x");
  const auto empty = [&] {
    service_.server().fail({.only = "/o?", .status = 200, .body = R"({"nextPageToken": "d"})"});
  };
  empty();
  EXPECT_TRUE(files_->info("gs://bucket/d/").value().is_directory);
  empty();
  EXPECT_THAT(files_->list_directory("gs://bucket/d").value(), SizeIs(2));
  empty();
  EXPECT_EQ(what(files_->remove_tree("gs://bucket/d")), "");
  EXPECT_THAT(service_.objects(), SizeIs(0));
}

TEST_F(GcsStoreTest, AListWithoutAnEndIsAnError) {
  service_.server().fail({.only = "/o?", .status = 200, .body = R"({"nextPageToken": "again"})"},
                         50);
  ASSERT_FALSE(files_->list_directory("gs://bucket/d").ok());
  EXPECT_LT(service_.server().requests("/o?").size(), 50u);
}

TEST_F(GcsStoreTest, NamesThatAreNoTextAreRefused) {
  EXPECT_THAT(what(files_->write_atomically("gs://bucket/\xff", std::string_view("x"))),
              AllOf(HasSubstr("InvalidArgument"), HasSubstr("UTF-8")));
}

TEST_F(GcsStoreTest, NothingIsVisibleBeforeTheCommit) {
  service_.put("f", "before");
  const std::string content = random_bytes(1'500'000);
  for (const bool commits : {false, true}) {
    auto writer = files_->open_staged("gs://bucket/f").value();
    ASSERT_EQ(what(writer->append(bytes_of(content))), "");
    ASSERT_EQ(what(writer->sync()), "");
    EXPECT_EQ(service_.objects().at("f").content, "before");
    EXPECT_EQ(service_.open_uploads(), 1u);
    EXPECT_EQ(what(commits ? writer->commit() : writer->discard()), "");
    EXPECT_EQ(service_.objects().at("f").content, commits ? content : "before");
    EXPECT_EQ(service_.open_uploads(), 0u);
  }
}

TEST_F(GcsStoreTest, ChecksumsAreCompared) {
  service_.put("f", random_bytes(500'000));
  service_.server().fail({.only = "GET", .lie = [](httplib::Response& response) {
                            response.body[response.body.size() / 2] ^= 1;
                          }});
  const auto read = files_->read_file("gs://bucket/f");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(read.error().what(), HasSubstr("CRC-32C"));
  // What the service says of an upload is not what was sent.
  service_.server().fail({.only = "PUT /session/"});
  service_.server().fail({.only = "PUT /session/", .lie = [](httplib::Response& response) {
                            response.body = R"({"size": "7", "generation": "1"})";
                          }});
  const Status written = files_->write_atomically("gs://bucket/g", random_bytes(300'000));
  EXPECT_THAT(what(written), HasSubstr("the service has 7 bytes"));
}

// 200 is not a success where the body is an error, in the words of either of the two APIs.
TEST_F(GcsStoreTest, ABodyThatIsAnErrorIsNoSuccess) {
  service_.set_parts(true);
  const std::string large = random_bytes(1'000'000);
  const std::vector<std::string> busy = {
      "<Error><Code>InternalError</Code></Error>",
      R"({"error": {"code": 503, "message": "busy", "errors": [{"reason": "backendError"}]}})"};
  for (const std::string& body : busy) {
    for (const char* only :
         {"POST /bucket/f?uploads", "PUT /bucket/f?", "POST /bucket/f?uploadId"}) {
      service_.server().fail({.only = only, .status = 200, .body = body});
      EXPECT_EQ(what(files_->write_atomically("gs://bucket/f", large)), "") << only;
      EXPECT_TRUE(service_.objects().at("f").content == large) << only;
    }
    service_.server().fail({.only = "uploadType=multipart", .status = 200, .body = body});
    EXPECT_EQ(what(files_->write_atomically("gs://bucket/small", "few")), "");
    service_.put("from", "x");
    service_.server().fail({.only = "/rewriteTo/", .status = 200, .body = body});
    EXPECT_EQ(what(files_->rename("gs://bucket/from", "gs://bucket/to")), "");
    EXPECT_EQ(files_->read_file("gs://bucket/to").value(), "x");
  }
  // A client without the right to read what it wrote has only this answer.
  service_.server().fail({.only = "POST /bucket/f?uploadId",
                          .status = 200,
                          .body = "<Error><Code>AccessDenied</Code></Error>"});
  EXPECT_THAT(what(files_->write_atomically("gs://bucket/f", large)), HasSubstr("AccessDenied"));
  // Services without uploads in parts.
  service_.set_parts(false);
  const auto resumable = make();
  for (const std::string& body : busy) {
    service_.server().fail({.only = "PUT /session/", .status = 200, .body = body});
    EXPECT_EQ(what(resumable->write_atomically("gs://bucket/g", large)), "");
    EXPECT_TRUE(service_.objects().at("g").content == large);
  }
}

TEST_F(GcsStoreTest, AFileThatIsReplacedWhileItIsReadIsAnError) {
  service_.put("f", random_bytes(2'000'000, 1));
  const auto reader = files_->open_reader("gs://bucket/f").value();
  service_.put("f", random_bytes(2'000'000, 2));
  std::string buffer(10'000, '\0');
  const auto read = reader->read_at(1'500'000, std::as_writable_bytes(std::span(buffer)));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().what(), HasSubstr("'gs://bucket/f' was replaced while it was read"));
}

TEST_F(GcsStoreTest, AFileThatGrowsIsWholeAtEachFlush) {
  std::string expected;
  for (int session = 0; session < 2; ++session) {
    auto writer = files_->open_writer("gs://bucket/d/log").value();
    for (const size_t size : {10, 5'300'000, 70, 5}) {
      const std::string more = random_bytes(size);
      ASSERT_EQ(what(writer->append(bytes_of(more))), "");
      expected += more;
      ASSERT_EQ(what(writer->flush()), "");
      ASSERT_TRUE(service_.objects().at("d/log").content == expected);
    }
    ASSERT_EQ(what(writer->close()), "");
  }
  EXPECT_THAT(service_.objects(), SizeIs(1)) << "what was joined is removed";
}

TEST_F(GcsStoreTest, AnAppendWhoseAnswerIsLostIsNotDoneTwice) {
  service_.put("log", random_bytes(5'300'000));
  auto writer = files_->open_writer("gs://bucket/log").value();
  ASSERT_EQ(what(writer->append(bytes_of("tail"))), "");
  service_.server().fail({.only = "/compose", .lie = nullptr, .cut_after = 0});
  EXPECT_EQ(what(writer->flush()), "");
  EXPECT_EQ(service_.objects().at("log").content.size(), 5'300'004u);
}

TEST_F(GcsStoreTest, DirectoriesAreWhatNamesHaveInFront) {
  for (const char* name : {"a/b/1", "a/b/2", "a/c", "ab"}) service_.put(name, "x");
  EXPECT_THAT(files_->list_directory("gs://bucket/a").value(), ElementsAre("b", "c"));
  EXPECT_THAT(files_->list_directory("gs://bucket").value(), ElementsAre("a", "ab"));
  const auto entries = files_->list_entries("gs://bucket/a/b").value();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].info.size, files_->file_size("gs://bucket/a/b/" + entries[0].name).value());
  EXPECT_EQ(entries[0].info.modified_seconds, 1769860800.5);
  EXPECT_TRUE(files_->list_entries("gs://bucket").value().at(0).info.is_directory);
  EXPECT_EQ(files_->list_directory("gs://bucket/none").error().kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(files_->info("gs://bucket/a").value().is_directory);
  EXPECT_FALSE(files_->exists("gs://bucket/none").value());
  EXPECT_EQ(what(files_->make_directories("gs://bucket/new/one")), "");
  EXPECT_THAT(what(files_->make_directories("gs://other/new")),
              AllOf(HasSubstr("NotFound"), HasSubstr("there is no bucket 'other'")));
  EXPECT_EQ(what(files_->remove_tree("gs://bucket/a")), "");
  EXPECT_THAT(service_.objects(), SizeIs(1));
}

TEST_F(GcsStoreTest, ListsMoreThanAPage) {
  for (int i = 0; i < 2500; ++i) service_.put("d/" + std::to_string(i), "x");
  EXPECT_THAT(files_->list_directory("gs://bucket/d").value(), SizeIs(2500));
}

TEST_F(GcsStoreTest, RenamesByCopyingInAsManyCallsAsItTakes) {
  service_.put("from", "content");
  service_.set_rewrite_calls(3);
  EXPECT_EQ(what(files_->rename("gs://bucket/from", "gs://bucket/d/to")), "");
  EXPECT_EQ(service_.objects().at("d/to").content, "content");
  EXPECT_THAT(service_.objects(), SizeIs(1));
}

TEST_F(GcsStoreTest, ErrorsSayWhatToDo) {
  EXPECT_THAT(files_->read_file("gs://bucket/none").error().what(),
              AllOf(HasSubstr("NotFound: cannot read 'gs://bucket/none'"),
                    HasSubstr("check the name of the object")));
  service_.server().fail({.status = 403, .body = R"({"error": {"code": 403, "message": "no, no",
    "errors": [{"reason": "forbidden"}]}})"});
  EXPECT_THAT(
      files_->read_file("gs://bucket/f").error().what(),
      AllOf(HasSubstr("403 forbidden (no, no)"), HasSubstr("GOOGLE_APPLICATION_CREDENTIALS")));
}

}  // namespace
}  // namespace muster::inline v0_1::stores
