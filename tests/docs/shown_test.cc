// The comparison of documents with terminals finds differences, forgives those that occur each
// time, and writes the printed text into the document.
#include "tests/docs/shown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace muster::docs {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kRun =
    "[worker 0] I 12:00:00 2 replicas train together, connected over shared memory\n"
    "[worker 0] I 12:00:00 step 100/200 (50%)  loss 0.5179  43923 examples/s  686.3 steps/s  0:03 "
    "left\n"
    "[worker 1] I 12:00:00 hello\n"
    "[worker 0] I 12:00:01 saved m/model.ckpt-200\n"
    "[worker 0] result: {\"global_step\":200,\"loss\":0.0302,\"accuracy\":0.9932}\n";

TEST(ShownTest, FindsBlocksAndWhatIsSaidOfThem) {
  const std::string text =
      "# A\n\n<!-- exit code 2; Ctrl-C after: step 1 "
      "-->\n```sh\nls\nls\n```\n```text\na\n```\n\n```cpp\nint a;\n```\n";
  const std::vector<Block> found = blocks(text);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].commands);
  EXPECT_EQ(found[0].text, "ls\nls\n");
  EXPECT_EQ(found[0].line, 4);
  EXPECT_EQ(argument(found[0], "exit code "), "2");
  EXPECT_EQ(argument(found[0], "Ctrl-C after: "), "step 1");
  EXPECT_EQ(argument(found[0], "not run: "), "");
  EXPECT_FALSE(found[1].commands);
  EXPECT_EQ(found[1].directive, "");
  EXPECT_EQ(text.substr(found[1].begin, 2), "a\n");
}

TEST(ShownTest, ABlockNeedsALanguageAndAnEnd) {
  EXPECT_THROW(blocks("```\na\n```\n"), std::invalid_argument);
  EXPECT_THROW(blocks("```sh\na\n"), std::invalid_argument);
}

TEST(ShownTest, ForgivesTimesRatesOrderAndLastDigits) {
  EXPECT_EQ(differences(kRun, kRun), "");
  EXPECT_EQ(differences(
                kRun,
                "[worker 1] I 13:07:09 hello\n"
                "[worker 0] I 13:07:09 2 replicas train together, connected over shared memory\n"
                "[worker 0] I 13:07:09 step 100/200 (50%)  loss 0.5180  9 examples/s  1.5 steps/s\n"
                "[worker 0] result: {\"global_step\":200,\"loss\":0.0309,\"accuracy\":0.9931}\n"
                "[worker 0] I 13:07:09 saved m/model.ckpt-200\n"),
            "");
}

TEST(ShownTest, ForgivesWhatIsSaidOfWaitsOnABusyMachine) {
  for (const std::string line :
       {"[worker 0] I 12:00:01 input: the model waited 1.2 s of 1.8 s (66 %) for data; map 1.0 s\n",
        "[worker 1] I 12:00:11 chief is waiting for worker 0 at 127.0.0.1:20001\n",
        "[muster] worker 1 ended 15 s ago; waiting for worker 0\n"}) {
    EXPECT_EQ(differences(kRun, kRun + line), "") << line;
    // A block that shows one means it.
    EXPECT_THAT(differences(kRun + line, kRun), Not(IsEmpty())) << line;
    EXPECT_EQ(differences(kRun + line, kRun + line), "") << line;
  }
}

TEST(ShownTest, FindsEachKindOfDifference) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kRun;
    return differences(kRun, text.replace(text.find(from), from.size(), to));
  };
  EXPECT_THAT(changed("0.5179", "0.5779"), Not(IsEmpty()));
  EXPECT_THAT(changed("ckpt-200", "ckpt-201"), HasSubstr("saved m/model.ckpt-200"));
  EXPECT_THAT(changed("step 100/", "step 101/"), Not(IsEmpty()));
  EXPECT_THAT(changed("shared memory", "TCP"), Not(IsEmpty()));
  EXPECT_THAT(changed("[worker 1] I 12:00:00 hello\n", ""), HasSubstr("hello"));
  EXPECT_THAT(changed("hello\n", "hello\n[worker 1] I 12:00:00 more\n"), Not(IsEmpty()));
  EXPECT_THAT(changed("hello\n", "hello\n[worker 2] I 12:00:00 more\n"), HasSubstr("not shown"));
  EXPECT_EQ(changed("0.5179", "0.5579"), "");  // of one batch
  EXPECT_THAT(changed("0.9932", "0.95"), Not(IsEmpty()));
}

TEST(ShownTest, DotsStandForWhatIsLeftOut) {
  EXPECT_EQ(differences("…\n[worker 0] I 11:11:11 saved m/model.ckpt-200\n…\n", kRun), "");
  EXPECT_EQ(differences("[worker 0] I 11:11:11 2 replicas … memory\n…\n", kRun), "");
  EXPECT_THAT(differences("…\n[worker 0] I 11:11:11 saved m/model.ckpt-200\n[worker 0] x\n", kRun),
              Not(IsEmpty()));
  // In another order than it was printed in, by one task.
  EXPECT_THAT(
      differences(
          "…\n[worker 0] I 1:1:1 saved m/model.ckpt-200\n…\n"
          "[worker 0] I 12:00:00 2 replicas train together, connected over shared memory\n…\n",
          kRun),
      Not(IsEmpty()));
}

TEST(ShownTest, WhereARunWasInterruptedIsAnotherStepEachTime) {
  const std::string shown =
      "[worker 0] I 1:1:1 restored m/model.ckpt-338: continuing after step 338, at epoch 0, sample "
      "33800\n"
      "[worker 0] I 1:1:1 step 339  loss 0.2451\n…\n[worker 0] I 1:1:1 step 1200  loss 0.0399\n";
  const std::string printed =
      "[worker 0] I 1:1:1 restored m/model.ckpt-1017: continuing after step 1017, at epoch 1, "
      "sample 41700\n"
      "[worker 0] I 1:1:1 step 1018  loss 0.0151\n[worker 0] I 1:1:1 step 1200  loss 0.0399\n";
  EXPECT_EQ(differences(shown, printed, {.interrupted = true}), "");
  EXPECT_THAT(differences(shown, printed), Not(IsEmpty()));
  EXPECT_THAT(differences("[muster] worker 1: killed by SIGKILL\n",
                          "[muster] worker 0: killed by SIGKILL\n", {.interrupted = true}),
              Not(IsEmpty()));
}

TEST(ShownTest, RefreshingKeepsWhatIsLeftOut) {
  const std::string shown =
      "…\n[worker 0] I 10:00:00 saved old/model.ckpt-150\n…\n[worker 0] result: {\"loss\":0.5}\n";
  EXPECT_EQ(refreshed(shown, kRun),
            "…\n[worker 0] I 12:00:01 saved m/model.ckpt-200\n"
            "[worker 0] result: {\"global_step\":200,\"loss\":0.0302,\"accuracy\":0.9932}\n");
  EXPECT_EQ(differences(refreshed(shown, kRun), kRun), "");
  EXPECT_EQ(refreshed("all of it\n", kRun), kRun);
  EXPECT_EQ(refreshed("a\nb …\n…\n", "a\nnew\nb some\nc\n"), "a\nnew\nb …\n…\n");
  // Lines that stood side by side do so again, whatever their numbers are now.
  EXPECT_EQ(refreshed("…\nstep 9 loss 0.5\nsaved 9\n",
                      "step 1 loss 0.5\nstep 2 loss 0.4\nstep 3 loss 0.3\nsaved 3\n"),
            "…\nstep 3 loss 0.3\nsaved 3\n");
  // The streams of a task are not in step.
  EXPECT_EQ(refreshed("…\n[w] saved 1\nresult: {1}\n[w] files\n",
                      "[w] a\n[w] saved 2\n[w] files\nresult: {2}\n"),
            "…\n[w] saved 2\nresult: {2}\n[w] files\n");
  EXPECT_EQ(refreshed("epoch: 1\n…\n", "epoch: 9\nb\n"), "epoch: 9\n…\n");
  EXPECT_THROW(refreshed("…\nquite another story\n", kRun), std::invalid_argument);
}

}  // namespace
}  // namespace muster::docs
