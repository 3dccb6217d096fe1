#include "muster/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "muster/base/error.h"
#include "muster/base/internal/log_handover.h"
#include "muster/base/printable.h"
#include "muster/base/recent_log.h"
#include "muster/base/strings.h"
#include "muster/base/terminal.h"

namespace muster::inline v0_1::log {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string utc(std::chrono::system_clock::time_point time) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     ms % 1000);
}

// The text with all lines except the first indented, by which its end is known; indented lines stay
// unchanged.
std::string with_indent(std::string_view text) {
  std::string indented;
  for (size_t i = 0; i < text.size(); ++i) {
    indented += text[i];
    const bool begins = text[i] == '\n' && i + 1 < text.size();
    if (begins && text[i + 1] != ' ' && text[i + 1] != '\t') indented += "  ";
  }
  return indented;
}

class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StderrSink()
      : terminal_(takes_escapes(STDERR_FILENO)),
        color_(takes_color(STDERR_FILENO)),
        json_(variable("MUSTER_LOG_FORMAT") == "json"),
        progress_(variable("MUSTER_PROGRESS")) {
    formatter_ = std::make_unique<spdlog::pattern_formatter>("%^%L%$ %H:%M:%S %v");
  }

  void set_format(Format format) { json_ = format == Format::kJson; }
  bool json() const { return json_; }
  bool shows_status() const {
    return !json_ && progress_ != "none" && (terminal_ || progress_ == "bar");
  }

  int width() const {
    if (const auto size = terminal_size(STDERR_FILENO)) return size->columns;
    const int columns = std::atoi(std::string(variable("COLUMNS")).c_str());
    return columns > 0 ? columns : 80;
  }

  void status(std::string_view text) {
    if (!shows_status()) return;
    std::lock_guard lock(mutex_);
    if (text.empty()) {
      clear_status();
      return;
    }
    const std::string shown = cut_to_columns(text, width() - 1);
    // `muster run` takes a line that ends in a carriage return as one that will be replaced.
    write(terminal_ ? fmt::format("\r\033[K{}", shown) : fmt::format("{}\r", shown));
    open_ = true;
  }

  void write_object(const nlohmann::ordered_json& object) {
    std::lock_guard lock(mutex_);
    // A line must not be lost because its text is not UTF-8.
    write(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string text(message.payload.data(), message.payload.size());
    if (json_) {
      const auto level = spdlog::level::to_string_view(message.level);
      write(nlohmann::ordered_json{{"time", utc(message.time)},
                                   {"level", std::string(level.data(), level.size())},
                                   {"message", text}}
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
            "\n");
      return;
    }
    // Many messages contain untrusted texts, and no message of ours contains control sequences for
    // a terminal.
    const std::string indented = with_indent(printable_lines(text));
    spdlog::details::log_msg whole = message;
    whole.payload = indented;
    spdlog::memory_buf_t line;
    formatter_->format(whole, line);
    clear_status();
    if (color_ && whole.color_range_end > whole.color_range_start) {
      const char* start = whole.level >= spdlog::level::err    ? "\033[31m\033[1m"
                          : whole.level == spdlog::level::warn ? "\033[33m\033[1m"
                          : whole.level == spdlog::level::info ? "\033[32m"
                                                               : "\033[36m";
      const std::string_view all(line.data(), line.size());
      write(fmt::format(
          "{}{}{}\033[m{}", all.substr(0, whole.color_range_start), start,
          all.substr(whole.color_range_start, whole.color_range_end - whole.color_range_start),
          all.substr(whole.color_range_end)));
    } else {
      write(std::string_view(line.data(), line.size()));
    }
  }

  void flush_() override { std::fflush(stderr); }

 private:
  void clear_status() {
    if (!open_) return;
    write(terminal_ ? "\r\033[K" : " \r");
    open_ = false;
  }

  void write(std::string_view bytes) {
    std::fwrite(bytes.data(), 1, bytes.size(), stderr);
    std::fflush(stderr);
  }

  const bool terminal_;
  const bool color_;
  std::atomic<bool> json_;
  const std::string progress_;
  bool open_ = false;  // a status is shown there
};

// It is never destroyed, because threads that end late may still log why.
struct Log {
  std::shared_ptr<StderrSink> sink = std::make_shared<StderrSink>();
  spdlog::logger logger{"muster", sink};

  Log() {
    const std::string wanted = to_lower(variable("MUSTER_LOG_LEVEL"));
    const auto known = spdlog::level::from_str(wanted);
    // spdlog reads unknown words as "off", which would also hide the error that ends a run.
    const bool understood = known != spdlog::level::off || wanted == "off";
    logger.set_level(understood ? known : spdlog::level::info);
    if (!understood && !wanted.empty()) {
      logger.warn("MUSTER_LOG_LEVEL is '{}'; using info. Use debug, info, warning, error or off",
                  wanted);
    }
    const std::string_view format = variable("MUSTER_LOG_FORMAT");
    if (!format.empty() && format != "json" && format != "text") {
      logger.warn("MUSTER_LOG_FORMAT is '{}'; using text. Use text or json", format);
    }
    const std::string_view progress = variable("MUSTER_PROGRESS");
    if (!progress.empty() && progress != "bar" && progress != "none") {
      logger.warn("MUSTER_PROGRESS is '{}'; ignored. Use bar or none, or unset it", progress);
    }
  }
};

Log& instance() {
  static Log* const log = new Log;
  return *log;
}

// Writes a line, or hands it to the sink of the program.
void say(Level level, std::string_view message) {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  Log& log = instance();
  const auto own = kLevels[static_cast<int>(level)];
  if (!log.logger.should_log(own)) return;
  internal::note_line(level, message);
  if (internal::hand_over(level, message)) return;
  log.logger.log(own, "{}", message);
}

// Whether a text is logged for the first time, and within the limit.
bool is_first(std::string_view message) {
  // Untrusted peers may send any number of texts.
  constexpr size_t kMostOnce = 1000;
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>();
  const std::lock_guard lock(mutex);
  return said->size() < kMostOnce && said->insert(std::string(message)).second;
}

}  // namespace

void debug(std::string_view message) { say(Level::kDebug, message); }
void info(std::string_view message) { say(Level::kInfo, message); }
void warning(std::string_view message) { say(Level::kWarning, message); }
void error(std::string_view message) { say(Level::kError, message); }

void info_once(std::string_view message) {
  if (is_first(message)) info(message);
}

void warning_once(std::string_view message) {
  if (is_first(message)) warning(message);
}

void event(std::string_view name, const nlohmann::json& fields, std::string_view message) {
  Log& log = instance();
  if (!log.logger.should_log(spdlog::level::info)) return;
  internal::note_line(Level::kInfo, message);
  if (internal::hand_over(Level::kInfo, message, name, &fields)) return;
  if (!log.sink->json()) {
    log.logger.info("{}", message);
    return;
  }
  nlohmann::ordered_json object{
      {"time", utc(std::chrono::system_clock::now())}, {"level", "info"}, {"event", name}};
  for (const auto& [key, value] : fields.items()) object[key] = value;
  object["message"] = message;
  log.sink->write_object(object);
}

void set_format(Format format) { instance().sink->set_format(format); }

Format parse_format(std::string_view word) {
  if (word == "text") return Format::kText;
  if (word == "json") return Format::kJson;
  throw invalid_argument(fmt::format("the log format is '{}'", word), "use text or json");
}

bool shows_status() { return !internal::has_sink() && instance().sink->shows_status(); }
void status(std::string_view text) {
  if (text.empty() || shows_status()) instance().sink->status(text);
}
int status_width() { return instance().sink->width() - 1; }

void flush() {
  internal::flush_sink();
  instance().logger.flush();
}

}  // namespace muster::inline v0_1::log
