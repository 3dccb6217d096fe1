// Files of web servers, good and bad.
#include "muster/stores/http_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "muster/stores/internal/for_tests.h"
#include "tests/support/web_server.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::random_bytes;
using internal::what;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  HttpStoreTest() {
    HttpOptions options = HttpOptions::from({});
    options.limits = internal::quick_limits();
    files_ = make_http_store(options);
  }

  const std::string content_ = random_bytes(1'000'000);
  WebServer server_{[this](const httplib::Request& request, httplib::Response& response) {
                      if (request.path == "/moved") {
                        response.status = 302;
                        response.set_header("Location", "/f?x=1");
                      } else if (request.path == "/f") {
                        response.set_header("ETag", "\"1\"");
                        response.body = content_;
                      } else if (request.path != "/empty") {
                        response.status = 404;
                      }
                    },
                    GetParam()};
  std::unique_ptr<FileSystem> files_;
};

INSTANTIATE_TEST_SUITE_P(WithRangesAndWithout, HttpStoreTest, ::testing::Bool());

TEST_P(HttpStoreTest, FilesAreRead) {
  for (const char* name : {"/f", "/f?x=1&y", "/moved"}) {
    const std::string url = server_.url() + name;
    EXPECT_EQ(files_->read_file(url).value(), content_) << name;
    EXPECT_EQ(files_->file_size(url).value(), content_.size());
    EXPECT_EQ(files_->read_range(url, 400'000, 1000).value(), content_.substr(400'000, 1000));
  }
  EXPECT_EQ(files_->read_file(server_.url() + "/empty").value(), "");
  EXPECT_FALSE(files_->exists(server_.url() + "/none").value());
}

TEST_P(HttpStoreTest, FaultsAreSurvived) {
  for (const WebFault& fault : std::vector<WebFault>{
           {.status = 500}, {.status = 429}, {.lie = nullptr, .cut_after = 10'000}}) {
    server_.fail(fault, 3);
    EXPECT_EQ(files_->read_file(server_.url() + "/f").value(), content_);
  }
}

TEST_P(HttpStoreTest, ASizeIsFoundWithoutHead) {
  server_.fail({.only = "HEAD", .status = 405});
  EXPECT_EQ(files_->file_size(server_.url() + "/f").value(), content_.size());
}

// An address that was signed is good for GET alone.
TEST_P(HttpStoreTest, ASizeIsFoundWhereHeadIsForbidden) {
  server_.fail({.only = "HEAD", .status = 403});
  EXPECT_EQ(files_->file_size(server_.url() + "/f?X-Amz-Signature=1").value(), content_.size());
}

// A transfer over a slow line that breaks near its end is tried again as any other.
TEST_P(HttpStoreTest, TheTimeForRetriesBeginsWithTheFirstFailure) {
  ManualClock clock({.sleep_advances = true});
  HttpOptions options = HttpOptions::from({});
  options.limits = internal::quick_limits();
  options.limits.clock = &clock;
  const auto files = make_http_store(options);
  server_.fail({.only = "GET", .lie = [&](httplib::Response& response) {
                  clock.advance(from_seconds(2 * options.limits.retry_timeout));
                  response.status = 503;
                }});
  EXPECT_EQ(files->read_file(server_.url() + "/f").value(), content_);
}

// A request to a server that hangs fails within the time for retries, not within twice that.
TEST_P(HttpStoreTest, ATryThatHungCountsFromWhereItStoodStill) {
  HttpOptions options = HttpOptions::from({});
  options.limits = internal::quick_limits();
  options.limits.stall_timeout = Seconds(1);
  options.limits.retry_timeout = Seconds(0.9);
  const auto files = make_http_store(options);
  std::promise<void> answered;
  std::atomic<int> tries{0};
  server_.fail({.lie =
                    [&, may_answer = answered.get_future().share()](httplib::Response&) {
                      tries += 1;
                      // As long as the client waits, and a bound for the test.
                      may_answer.wait_for(std::chrono::seconds(20));
                    }},
               10);
  const auto read = files->read_file(server_.url() + "/f");
  answered.set_value();
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().what(), HasSubstr("gives no answer in time"));
  EXPECT_EQ(tries, 1);
}

TEST_P(HttpStoreTest, ErrorsOfImpossibleRequestsSayWhatToDo) {
  const std::string url = server_.url() + "/f";
  EXPECT_THAT(files_->read_file(server_.url() + "/none").error().what(),
              AllOf(HasSubstr("NotFound"), HasSubstr("404"), HasSubstr("check the address")));
  EXPECT_THAT(files_->list_directory(url).error().what(), HasSubstr("have no directories"));
  EXPECT_THAT(what(files_->write_atomically(url, std::string_view("x"))),
              HasSubstr("write to a disk or to a bucket"));
  EXPECT_THAT(what(files_->remove(url)), HasSubstr("are only read"));
}

// The signature in an address is as good as a password.
TEST_P(HttpStoreTest, ErrorsShowNoSecretsOfAnAddress) {
  const std::string url = "http://me:TOPSECRET@" + server_.host() + "/none?key=TOPSECRET";
  for (const std::string& told :
       {std::string(files_->read_file(url).error().what()),
        std::string(files_->info(url).error().what()), what(files_->remove(url)),
        std::string(files_->list_directory(url).error().what())}) {
    EXPECT_THAT(told, AllOf(HasSubstr("/none?..."), Not(HasSubstr("TOPSECRET"))));
  }
}

TEST_P(HttpStoreTest, AFileThatIsReplacedWhileItIsReadIsAnError) {
  if (!GetParam()) GTEST_SKIP() << "read at once";
  const auto reader = files_->open_reader(server_.url() + "/f").value();
  server_.fail({.only = "GET", .lie = [](httplib::Response& response) {
                  response.headers.erase("ETag");
                  response.set_header("ETag", "\"2\"");
                }});
  std::string buffer(10'000, '\0');
  const auto read = reader->read_at(500'000, std::as_writable_bytes(std::span(buffer)));
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().what(), HasSubstr("was replaced while it was read"));
}

}  // namespace
}  // namespace muster::inline v0_1::stores
