#include "muster/base/log_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/internal/starts_itself.h"
#include "muster/base/log.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

// What a line holds, in memory of its own.
std::string copy_of(const log::Line& line) {
  std::string text = std::string(log::to_string(line.level)) + "|" + std::string(line.text) + "|" +
                     std::string(line.hint) + "|" + std::string(line.event);
  for (const auto& [name, value] : line.fields) text += "|" + name + "=" + value;
  return text;
}

class LogSinkTest : public ::testing::Test {
 protected:
  void TearDown() override { log::set_sink({}); }

  log::Sink keeps() {
    return [this](const log::Line& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(copy_of(line));
    };
  }

  std::mutex mutex_{};
  std::vector<std::string> lines_{};
};

TEST_F(LogSinkTest, LinesAreHandedOverWithWhatTheyHave) {
  CaptureStderr();
  log::set_sink(keeps());
  log::info("one");
  log::debug("below the level");
  log::warning("red \x1b[31m and \xff");
  log::error("InvalidArgument: bad\n  caused by: worse\n  hint: take another");
  log::event("saved", {{"checkpoint", "a/b"}, {"global_step", 7}}, "saved it");
  log::set_sink({});
  log::info("written");
  EXPECT_THAT(lines_, ElementsAre("info|one||", "warning|red \\x1b[31m and \\xff||",
                                  "error|InvalidArgument: bad\n  caused by: worse|take another|",
                                  "info|saved it||saved|checkpoint=a/b|global_step=7"));
  const std::string written = GetCapturedStderr();
  EXPECT_THAT(written, ::testing::MatchesRegex("I [0-9:]+ written\n"));
}

TEST_F(LogSinkTest, ASinkMayThrowAndMayLog) {
  CaptureStderr();
  log::set_sink([](const log::Line&) { throw std::runtime_error("disk full"); });
  log::info("lost nothing");
  log::info("nor this");
  log::set_sink([this](const log::Line& line) {
    log::info("from the sink");
    log::flush();
    const std::lock_guard lock(mutex_);
    lines_.push_back(copy_of(line));
  });
  log::info("outer");
  log::set_sink({});
  EXPECT_THAT(lines_, ElementsAre("info|outer||"));
  const std::string written = GetCapturedStderr();
  EXPECT_THAT(written, ::testing::MatchesRegex(
                           "W [0-9:]+ the log sink of this program threw: disk full; lines for "
                           "which it throws are written here\nI [0-9:]+ lost nothing\n"
                           "I [0-9:]+ nor this\nI [0-9:]+ from the sink\n"));
}

TEST_F(LogSinkTest, ASinkMayReplaceItself) {
  log::set_sink([this](const log::Line&) { log::set_sink(keeps()); });
  log::info("one");
  log::info("two");
  EXPECT_THAT(lines_, ElementsAre("info|two||"));
}

// This function is quoted in docs/estimators.md.
void log_to(const std::shared_ptr<spdlog::logger>& logger) {
  log::set_sink(
      [logger](const log::Line& line) {
        const auto level = line.level == log::Level::kError     ? spdlog::level::err
                           : line.level == log::Level::kWarning ? spdlog::level::warn
                           : line.level == log::Level::kInfo    ? spdlog::level::info
                                                                : spdlog::level::debug;
        std::string text(line.text);
        if (!line.hint.empty()) text += " (" + std::string(line.hint) + ")";
        for (const auto& [name, value] : line.fields) text += " " + name + "=" + value;
        logger->log(line.time, spdlog::source_loc{}, level, text);
      },
      [logger] { logger->flush(); });
}

TEST_F(LogSinkTest, AnSpdlogLoggerTakesTheLines) {
  std::ostringstream out;
  const auto logger = std::make_shared<spdlog::logger>(
      "program", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger->set_pattern("%n %l %v");
  log_to(logger);
  log::event("saved", {{"global_step", 7}}, "saved it");
  log::error("NotFound: nothing\n  hint: look elsewhere");
  log::flush();
  EXPECT_EQ(
      out.str(),
      "program info saved it global_step=7\nprogram error NotFound: nothing (look elsewhere)\n");
}

TEST_F(LogSinkTest, FlushIsPassedOn) {
  int flushed = 0;
  log::set_sink(keeps(), [&] {
    ++flushed;
    log::flush();  // a logger's flush may come back
  });
  log::flush();
  EXPECT_EQ(flushed, 1);
  log::set_sink(keeps());
  log::flush();
  EXPECT_EQ(flushed, 1);
  EXPECT_EQ(error_of([] { log::set_sink({}, [] {}); }).kind(), ErrorKind::kInvalidArgument);
}

// Each thread's lines stay in order, none is lost or doubled while sinks are exchanged, and no
// thread is in a sink that was replaced.
TEST_F(LogSinkTest, ThreadsLogWhileSinksAreExchanged) {
  constexpr int kThreads = 4, kLines = 2000;
  std::vector<std::vector<int>> seen(kThreads);
  std::vector<std::mutex> locks(kThreads);
  std::atomic<bool> called_late = false;
  // A sink that knows whether it may still be called.
  struct Alive {
    std::atomic<bool> is = true;
  };
  std::vector<std::unique_ptr<Alive>> lives;
  const auto next = [&] {
    lives.push_back(std::make_unique<Alive>());
    Alive* const alive = lives.back().get();
    log::set_sink([&, alive](const log::Line& line) {
      if (!alive->is) called_late = true;
      const std::string text(line.text);
      const size_t thread = static_cast<size_t>(text[0] - '0');
      const std::lock_guard lock(locks[thread]);
      seen[thread].push_back(std::stoi(text.substr(2)));
      if (!alive->is) called_late = true;
    });
  };
  next();
  std::vector<std::thread> threads;
  std::atomic<int> running = kThreads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kLines; ++i) log::info(std::to_string(thread) + " " + std::to_string(i));
      --running;
    });
  }
  while (running > 0) {
    Alive* const former = lives.back().get();
    next();
    former->is = false;
  }
  for (std::thread& thread : threads) thread.join();
  log::set_sink({});
  EXPECT_FALSE(called_late);
  for (const auto& numbers : seen) {
    ASSERT_EQ(numbers.size(), static_cast<size_t>(kLines));
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
  }
}

TEST(LogSinkDeathTest, TheLevelAppliesBeforeTheSinkAndNoStatusIsShown) {
  // A death test starts this program again, which an emulator of another machine may not be able
  // to.
  if (!muster::testing::starts_itself()) GTEST_SKIP() << muster::testing::kNotStarted;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("MUSTER_LOG_LEVEL", "warning", 1);
        setenv("MUSTER_PROGRESS", "bar", 1);
        setenv("MUSTER_LOG_FORMAT", "json", 1);
        log::set_sink([](const log::Line& line) {
          std::fprintf(stderr, "<%.*s>", static_cast<int>(line.text.size()), line.text.data());
        });
        log::info("not this");
        log::event("not", {{"this", 1}}, "nor this");
        log::status("nor this");
        log::error("this");
        std::exit(log::shows_status() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "^<this>$");
}

}  // namespace
}  // namespace muster::inline v0_1
