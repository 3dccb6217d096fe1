// Lists of services that are wrong or lie: what they name does not become a path, and they end.
#include "muster/stores/internal/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/files/glob.h"
#include "muster/stores/gcs_store.h"
#include "muster/stores/internal/for_tests.h"
#include "tests/support/gcs_stand_in.h"
#include "tests/support/s3_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::ListPage;
using internal::ObjectName;
using internal::Seen;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a server says lies in "data/".
struct Lie {
  std::vector<std::string> keys{};
  std::vector<std::string> prefixes{};
  std::string size = "1";
};

// A bucket of each service, whose lists lie.
struct Liars {
  S3StandIn s3;
  GcsStandIn gcs;
  std::unique_ptr<FileSystem> s3_files = internal::quick_s3_store(s3.environment());
  std::unique_ptr<FileSystem> gcs_files = [&] {
    GcsOptions options = GcsOptions::from(gcs.environment());
    options.limits = internal::quick_limits();
    return make_gcs_store(options);
  }();

  void lie(const Lie& lie) {
    s3.lie_in_lists([=](const httplib::Request&) {
      std::string body = "<ListBucketResult>";
      for (const std::string& key : lie.keys) {
        body += "<Contents><Key>" + key + "</Key><Size>" + lie.size + "</Size></Contents>";
      }
      for (const std::string& prefix : lie.prefixes)
        body += "<CommonPrefixes><Prefix>" + prefix + "</Prefix></CommonPrefixes>";
      return body + "</ListBucketResult>";
    });
    gcs.lie_in_lists([=](const httplib::Request&) {
      nlohmann::json all = {{"items", nlohmann::json::array()}, {"prefixes", lie.prefixes}};
      for (const std::string& key : lie.keys)
        all["items"].push_back({{"name", key}, {"size", lie.size}});
      return all.dump();
    });
  }

  // Calls `check` with the file system of each service and the scheme of its paths.
  template <typename Check>
  void at_each(const Check& check) {
    check(*s3_files, std::string("s3"));
    check(*gcs_files, std::string("gs"));
  }
};

TEST(Listing, WhatDoesNotLieInTheFolderIsRefused) {
  Liars liars;
  const std::pair<std::string, std::string> keys[] = {
      {"data/../../x", "lies in a folder below"},
      {"data//etc/passwd", "lies in a folder below"},
      {"data/http://127.0.0.1/x", "lies in a folder below"},
      {"data/sub/x", "lies in a folder below"},
      {"/etc/passwd", "does not lie in it"},
      {"../x", "does not lie in it"},
      {"http://127.0.0.1/x", "does not lie in it"},
      {"other/x", "does not lie in it"},
      {"dat", "does not lie in it"},
      {"data/" + std::string(1100, 'x'), "is longer than a name can be"},
  };
  for (const auto& [key, fault] : keys) {
    liars.lie({.keys = {"data/good.csv", key}});
    liars.at_each([&, &key = key, &fault = fault](FileSystem& files, const std::string& scheme) {
      const std::string folder = scheme + "://bucket/data";
      const auto listed = files.list_entries(folder);
      ASSERT_FALSE(listed.ok()) << key;
      EXPECT_EQ(listed.error().kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(listed.error().message(),
                  AllOf(HasSubstr("the list of '" + folder + "'"), HasSubstr("which " + fault)));
      EXPECT_FALSE(files.list_directory(folder).ok());
      EXPECT_EQ(error_of([&] { (void)files_below(files, folder); }).kind(), ErrorKind::kCorrupt);
      EXPECT_EQ(error_of([&] { (void)find_paths(files, folder + "/*"); }).kind(),
                ErrorKind::kCorrupt);
    });
  }
  const std::pair<std::string, std::string> prefixes[] = {
      {"other/", "does not lie in it"},
      {"data/a/b/", "lies in a folder below"},
      {"data//", ""},  // an empty name: left out, and said
      {"data/a", "is not a folder"},
      {"/", "does not lie in it"}};
  for (const auto& [prefix, fault] : prefixes) {
    liars.lie({.keys = {"data/good.csv"}, .prefixes = {prefix}});
    liars.at_each(
        [&, &prefix = prefix, &fault = fault](FileSystem& files, const std::string& scheme) {
          const auto listed = files.list_directory(scheme + "://bucket/data");
          ASSERT_EQ(listed.ok(), fault.empty()) << prefix;
          if (listed.ok()) {
            EXPECT_THAT(listed.value(), ElementsAre("good.csv"));
          } else {
            EXPECT_THAT(listed.error().message(), HasSubstr("which " + fault));
          }
        });
  }
}

// Names that lead upwards are names in a store, and none on a disk.
TEST(Listing, NobodyCopiesWhatLeadsUpwards) {
  Liars liars;
  liars.lie({.keys = {"data/good.csv"}, .prefixes = {"data/../"}});
  liars.at_each([&](FileSystem& files, const std::string& scheme) {
    EXPECT_EQ(error_of([&] { (void)files_below(files, scheme + "://bucket/data"); }).kind(),
              ErrorKind::kInvalidArgument);
    EXPECT_EQ(find_paths(files, scheme + "://bucket/data/*").size(), 1u);
  });
  liars.gcs.lie_in_lists([](const httplib::Request&) {
    return R"({"items": [{"name": "data/a\u0000b", "size": "1"}]})";
  });
  EXPECT_THAT(liars.gcs_files->list_directory("gs://bucket/data").error().message(),
              HasSubstr("zero byte"));
}

// Only what lies in it is removed with a folder.
TEST(Listing, NothingElseIsRemovedWithAFolder) {
  Liars liars;
  liars.lie({.keys = {"data/a", "precious"}});
  liars.s3.objects()["precious"] = "x";
  liars.gcs.put("precious", "x");
  liars.at_each([&](FileSystem& files, const std::string& scheme) {
    const Status removed = files.remove_tree(scheme + "://bucket/data");
    ASSERT_FALSE(removed.ok());
    EXPECT_EQ(removed.error().kind(), ErrorKind::kCorrupt);
  });
  EXPECT_TRUE(liars.s3.objects().contains("precious"));
  EXPECT_TRUE(liars.gcs.objects().contains("precious"));
}

TEST(Listing, SizesAreNumbers) {
  Liars liars;
  for (const char* size :
       {"-1", "18446744073709551616", "9223372036854775808", "", "1e3", "0x10"}) {
    liars.lie({.keys = {"data/a"}, .size = size});
    liars.at_each([&](FileSystem& files, const std::string& scheme) {
      const auto listed = files.list_directory(scheme + "://bucket/data");
      ASSERT_FALSE(listed.ok()) << size;
      EXPECT_EQ(listed.error().kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(listed.error().message(), HasSubstr("the size '" + std::string(size) + "'"));
    });
  }
}

// A service whose pages a test makes up.
class PagesService : public internal::ObjectService {
 public:
  explicit PagesService(std::function<ListPage(const std::string&)> page)
      : page_(std::move(page)) {}
  int pages() const { return pages_; }

  std::string scheme() const override { return "s3"; }
  Result<ListPage> list(const ObjectName&, const std::string&, bool, const std::string& next,
                        int) override {
    ++pages_;
    return page_(next);
  }
  Result<internal::ObjectInfo> look(const ObjectName&) override { return unused(); }
  Result<internal::RangeRead> read(const ObjectName&, const std::string&, uint64_t, MutableBytes,
                                   internal::Cancellation*) override {
    return unused();
  }
  Result<internal::ObjectInfo> put(const ObjectName&, Bytes) override { return unused(); }
  Result<std::unique_ptr<internal::PartUpload>> begin_upload(const ObjectName&) override {
    return unused();
  }
  Result<internal::ObjectInfo> extend(const ObjectName&, const internal::ObjectInfo&,
                                      Bytes) override {
    return unused();
  }
  Status remove(const ObjectName&) override { return unused(); }
  Status remove_all(const ObjectName&, const std::vector<std::string>&) override {
    return unused();
  }
  Status copy(const ObjectName&, const internal::ObjectInfo&, const ObjectName&) override {
    return unused();
  }

 private:
  static Error unused() { return internal_error("only lists are asked for"); }
  const std::function<ListPage(const std::string&)> page_;
  int pages_ = 0;
};

ListPage page_of(const std::vector<std::string>& keys, const std::string& next) {
  return {.keys = keys, .infos = std::vector<FileInfo>(keys.size()), .prefixes = {}, .next = next};
}

std::string after(const std::string& next) {
  return std::to_string(next.empty() ? 1 : std::stoi(next) + 1);
}

TEST(Listing, AListThatDoesNotEndIsAnError) {
  const ObjectName folder{"s3", "bucket", "data"};
  ManualClock clock;
  std::set<std::string> names;
  const auto list = [&](PagesService& service) {
    names.clear();
    const Status listed =
        internal::list_pages(service, folder, false, 0, clock, [&](ListPage& page) {
          const size_t before = names.size();
          names.insert(page.keys.begin(), page.keys.end());
          return names.size() > before ? Seen::kSomethingNew : Seen::kNothingNew;
        });
    return listed.ok() ? "" : listed.error().message();
  };
  PagesService in_a_circle([](const std::string& next) {
    return page_of({"data/" + next}, next == "a" ? "b" : next == "b" ? "c" : "a");
  });
  EXPECT_THAT(list(in_a_circle), HasSubstr("pages name each other"));
  EXPECT_LE(in_a_circle.pages(), 5);
  PagesService empty([](const std::string& next) { return page_of({}, after(next)); });
  EXPECT_THAT(list(empty), HasSubstr("1000 pages in a row have no new names"));
  EXPECT_EQ(empty.pages(), 1000);
  PagesService the_same([](const std::string& next) { return page_of({"data/a"}, after(next)); });
  EXPECT_THAT(list(the_same), HasSubstr("no new names"));
  PagesService ever_more(
      [](const std::string& next) { return page_of({"data/x" + next}, after(next)); });
  EXPECT_THAT(list(ever_more), HasSubstr("has no end"));
  EXPECT_EQ(ever_more.pages(), 100'000);
  // Empty pages are not end, and none is asked for after one that is enough.
  PagesService late([](const std::string& next) {
    return next == "900" ? page_of({"data/a"}, "x") : page_of({}, after(next));
  });
  EXPECT_THAT(internal::first_page(late, folder, false, 0, clock).value().keys,
              ElementsAre("data/a"));
}

TEST(Listing, ALongListIsSaid) {
  ManualClock clock;
  PagesService slow([&](const std::string& next) {
    clock.advance(from_seconds(4));
    return page_of({"data/x" + next}, next == "6" ? "" : after(next));
  });
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(internal::list_pages(slow, {"s3", "bucket", "data"}, false, 0, clock, [](ListPage&) {
                return Seen::kSomethingNew;
              }).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("listing 's3://bucket/data': 3 names on 3 pages so far"));
}

// Each key has its own bytes, whatever slashes it has.
TEST(Listing, SlashesBelongToANameOfAnObject) {
  Liars liars;
  const std::vector<std::string> keys = {"a/b.csv", "a//b.csv", "/lead/c.csv", "lead/c.csv",
                                         "a/../b",  "b",        "d+e f#g.csv"};
  liars.at_each([&](FileSystem& files, const std::string& scheme) {
    for (const std::string& key : keys) {
      EXPECT_EQ(internal::what(files.write_atomically(scheme + "://bucket/" + key, key)), "");
    }
    for (const std::string& key : keys) {
      EXPECT_EQ(files.read_file(scheme + "://bucket/" + key).value(), key);
      EXPECT_EQ(files.file_size(scheme + "://bucket/" + key).value(), key.size());
    }
    for (const char* missing : {"lead//c.csv", "x//y"}) {
      const auto read = files.read_file(scheme + "://bucket/" + missing);
      ASSERT_FALSE(read.ok());
      EXPECT_EQ(read.error().kind(), ErrorKind::kNotFound);
      EXPECT_THAT(read.error().hint(), HasSubstr("empty part"));
      EXPECT_THAT(files.info(scheme + "://bucket/" + missing).error().hint(),
                  HasSubstr("empty part"));
    }
    // Lists have no empty names.
    EXPECT_THAT(files.list_directory(scheme + "://bucket/a").value(), ElementsAre("..", "b.csv"));
    EXPECT_THAT(error_of([&] { (void)find_paths(files, scheme + "://bucket/a//*.csv"); }).message(),
                HasSubstr("empty part"));
  });
  EXPECT_EQ(liars.s3.objects().size(), keys.size());
  EXPECT_EQ(liars.s3.objects().at("a//b.csv"), "a//b.csv");
  EXPECT_THAT(liars.s3_files->list_directory("s3://bucket/none//").ok(), false);
}

}  // namespace
}  // namespace muster::inline v0_1::stores
