#include "muster/distribute/agree.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/distribute/internal/local_group.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The exchange of three replicas, of which each receives the texts of all.
class Meeting {
 public:
  std::vector<std::string> exchange(int replica, std::string text) {
    return group_.exchange(replica, "settings", std::move(text));
  }

 private:
  LocalGroup group_{3, LocalGroup::Patience{}};
};

class MeetingGroup : public Group {
 public:
  MeetingGroup(Meeting& meeting, int replica) : meeting_(meeting), replica_(replica) {}
  std::vector<std::string> gather_text(const std::string&, const std::string& text) override {
    return meeting_.exchange(replica_, text);
  }
  void declare_model(const std::vector<std::string>&) override {}
  void barrier(const std::string&) override {}
  void finish() override {}
  void report(Phase, int64_t) override {}
  void fail(const Error&) noexcept override {}
  void check_failure() override {}
  void await_failure() override {}
  Error explain(const Error& error) override { return error; }

 private:
  Meeting& meeting_;
  int replica_;
};

TEST(CheckSame, EverybodyHearsWhoHasWhat) {
  Meeting meeting;
  testing::run_ranks(3, [&](int rank) {
    MeetingGroup group(meeting, rank);
    ReplicaPlace place{.process = rank, .processes = 3};
    place.task = fmt::format("worker {}", rank);
    EXPECT_NO_THROW(check_same(group, place, {{"seed", "1"}, {"max_steps", "400"}}));
    const Error error = error_of([&] {
      check_same(group, place,
                 {{"seed", "1"},
                  {"max_steps", rank == 1 ? "300" : "400"},
                  {"batch_size", rank == 2 ? "8" : "16"}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("max_steps is 300 on worker 1; 400 on worker 0, worker 2"),
                      HasSubstr("batch_size is 16 on worker 0, worker 1; 8 on worker 2"),
                      Not(HasSubstr("seed"))));
  });
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
