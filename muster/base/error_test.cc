#include "muster/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "muster/base/foreign_error.h"
#include "muster/base/result.h"

namespace muster::inline v0_1 {
namespace {

TEST(Error, TellsItsStory) {
  const Error root = not_found("no file 'a'", "make it");
  EXPECT_STREQ(root.what(), "NotFound: no file 'a'\n  hint: make it");
  const Error outer = root.with_context("cannot restore").with_context("cannot train");
  EXPECT_EQ(outer.kind(), ErrorKind::kNotFound);
  EXPECT_STREQ(outer.what(),
               "NotFound: cannot train\n  caused by: cannot restore\n  caused by: no file 'a'\n  "
               "hint: make it");
  EXPECT_STREQ(root.with_detail("it was here").what(),
               "NotFound: no file 'a'; it was here\n  hint: make it");
}

TEST(Error, ErrnoAndExitCodes) {
  EXPECT_EQ(from_errno(ENOENT, "x").kind(), ErrorKind::kNotFound);
  for (const int no_room : {ENOSPC, EDQUOT, EFBIG, EROFS, EACCES, EPERM})
    EXPECT_EQ(exit_code(from_errno(no_room, "x").kind()), 2) << "it would fail again";
  EXPECT_NE(from_errno(ENOSPC, "x").hint().find("free space"), std::string::npos);
  EXPECT_EQ(from_errno(EACCES, "x").kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(from_errno(EIO, "x").kind(), ErrorKind::kInternal);
  EXPECT_EQ(exit_code(ErrorKind::kNonFinite), 1);
  EXPECT_EQ(exit_code(ErrorKind::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(ErrorKind::kPeerLost), 138);
  EXPECT_EQ(exit_code(ErrorKind::kCancelled), 143);
}

TEST(Error, OfOtherTypesTellsTheType) {
  EXPECT_STREQ(foreign_error(std::out_of_range("no column 7")).what(),
               "Internal: std::out_of_range was thrown: no column 7");
  EXPECT_FALSE(foreign_error(std::bad_alloc()).hint().empty());
  const auto caught = [](const auto& thrown) {
    try {
      throw thrown;
    } catch (...) {
      return current_error();
    }
  };
  EXPECT_EQ(caught(not_found("no file")).kind(), ErrorKind::kNotFound);
  EXPECT_EQ(caught(std::runtime_error("mine")).message(), "std::runtime_error was thrown: mine");
  EXPECT_EQ(caught(7).message(), unknown_error().message());
  EXPECT_EQ(unknown_error().kind(), ErrorKind::kInternal);
}

TEST(Result, HoldsAValueOrThrowsItsError) {
  Result<std::unique_ptr<int>> good(std::make_unique<int>(3));
  EXPECT_EQ(*good.value(), 3);
  EXPECT_EQ(*std::move(good).value(), 3);
  const Result<int> bad(corrupt("bytes"));
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.value_or(7), 7);
  EXPECT_THROW((void)bad.value(), Error);
  const Status failed(internal_error("x"));
  EXPECT_THROW(failed.value(), Error);
  EXPECT_NO_THROW(Status().value());
}

}  // namespace
}  // namespace muster::inline v0_1
