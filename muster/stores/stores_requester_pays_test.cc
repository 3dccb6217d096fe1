// Buckets for which the requester pays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/stores/gcs_store.h"
#include "muster/stores/internal/for_tests.h"
#include "tests/support/gcs_stand_in.h"
#include "tests/support/s3_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::random_bytes;
using internal::what;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Every kind of request that a store makes.
void use(FileSystem& files, const std::string& root) {
  EXPECT_EQ(what(files.make_directories(root)), "");
  const std::string large = random_bytes(3 << 20);
  for (const std::string& content : {std::string("small"), large}) {
    EXPECT_EQ(what(files.write_atomically(root + "/f", content)), "");
    EXPECT_EQ(files.read_file(root + "/f").value(), content);
  }
  EXPECT_EQ(files.file_size(root + "/f").value(), large.size());
  auto writer = files.open_writer(root + "/grows").value();
  EXPECT_TRUE(writer->append(bytes_of(std::string(6 << 20, 'x'))).ok());
  EXPECT_EQ(what(writer->flush()), "");
  EXPECT_TRUE(writer->append(bytes_of(std::string("tail"))).ok());
  EXPECT_EQ(what(writer->close()), "");
  EXPECT_EQ(files.file_size(root + "/grows").value(), (6u << 20) + 4);
  EXPECT_THAT(files.list_directory(root).value(), ElementsAre("f", "grows"));
  EXPECT_EQ(what(files.rename(root + "/f", root + "/g")), "");
  EXPECT_EQ(what(files.remove(root + "/g")), "");
  EXPECT_EQ(what(files.remove_tree(root)), "");
}

TEST(RequesterPays, S3) {
  S3StandIn service;
  service.set_requester_pays(true);
  use(*internal::quick_s3_store(service.environment().with("AWS_REQUEST_PAYER", "requester")),
      "s3://bucket/d");
  // It is reported to a user who may have meant to pay, and not to one who does.
  const auto files = internal::quick_s3_store(service.environment());
  for (const Error& refused :
       {files->read_file("s3://bucket/f").error(), files->info("s3://bucket/f").error(),
        files->list_directory("s3://bucket").error()}) {
    EXPECT_THAT(refused.hint(), HasSubstr("set AWS_REQUEST_PAYER=requester")) << refused.what();
  }
  service.server().fail({.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"});
  EXPECT_THAT(internal::quick_s3_store(service.environment().with("AWS_REQUEST_PAYER", "requester"))
                  ->read_file("s3://bucket/f")
                  .error()
                  .hint(),
              Not(HasSubstr("AWS_REQUEST_PAYER")));
  EXPECT_THAT(error_of([] {
                (void)S3Options::from({{"AWS_REQUEST_PAYER", "me"}});
              }).message(),
              HasSubstr("AWS_REQUEST_PAYER is 'me'"));
}

TEST(RequesterPays, Gcs) {
  for (const bool has_parts : {false, true}) {
    GcsStandIn service;
    service.set_parts(has_parts);
    service.set_payer("my project");
    const auto make = [&](const Environment& environment) {
      GcsOptions options = GcsOptions::from(environment);
      options.limits = internal::quick_limits();
      return make_gcs_store(options);
    };
    use(*make(service.environment().with("GS_USER_PROJECT", "my project")), "gs://bucket/d");
    const auto files = make(service.environment());
    for (const Error& refused :
         {files->read_file("gs://bucket/f").error(), files->info("gs://bucket/f").error(),
          files->list_directory("gs://bucket").error()}) {
      EXPECT_THAT(refused.hint(), HasSubstr("set GS_USER_PROJECT")) << refused.what();
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::stores
