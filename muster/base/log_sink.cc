#include "muster/base/log_sink.h"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/internal/log_handover.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"

namespace muster::inline v0_1::log {
namespace {

struct InstalledSink {
  Sink take{};
  std::function<void()> flush{};
  int calls = 0;  // calls that have not returned; guarded by SinkPlace::mutex
};

// It is never destroyed, because threads that end late may still log. The mutex is held for no call
// of a program's function.
struct SinkPlace {
  std::mutex mutex{};
  std::condition_variable returned{};
  std::shared_ptr<InstalledSink> sink{};
};

SinkPlace& sink_place() {
  static auto* const place = new SinkPlace;
  return *place;
}

// Whether this thread is in a function of the program.
thread_local bool in_sink = false;

// One call of the program's functions: keeps the sink, and counts as a call of it.
class SinkCall {
 public:
  SinkCall() {
    if (in_sink) return;
    const std::lock_guard lock(sink_place().mutex);
    sink_ = sink_place().sink;
    if (!sink_) return;
    ++sink_->calls;
    in_sink = true;
  }
  ~SinkCall() {
    if (!sink_) return;
    in_sink = false;
    const std::lock_guard lock(sink_place().mutex);
    --sink_->calls;
    sink_place().returned.notify_all();
  }
  SinkCall(const SinkCall&) = delete;
  SinkCall& operator=(const SinkCall&) = delete;

  const InstalledSink* sink() const { return sink_.get(); }

 private:
  std::shared_ptr<InstalledSink> sink_{};
};

// Calls a function of the program; false, and the reason in `*why`, if it threw.
template <typename Fn>
bool returns(const Fn& fn, std::string* why) {
  try {
    fn();
    return true;
  } catch (const std::exception& error) {
    *why = error.what();
  } catch (...) {
    *why = "an exception that is not a std::exception";
  }
  return false;
}

void say_that_it_threw(const std::string& why) {
  warning_once("the log sink of this program threw: " + why +
               "; lines for which it throws are written here");
}

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
    case Level::kInfo:
      break;
  }
  return "info";
}

void set_sink(Sink sink, std::function<void()> flush) {
  if (!sink && flush) {
    throw invalid_argument("set_sink() got a flush without a sink", "give both, or none to reset");
  }
  std::shared_ptr<InstalledSink> next, former;
  if (sink) {
    next = std::make_shared<InstalledSink>(
        InstalledSink{.take = std::move(sink), .flush = std::move(flush)});
  }
  SinkPlace& place = sink_place();
  std::unique_lock lock(place.mutex);
  former = std::exchange(place.sink, std::move(next));
  if (!former || in_sink) return;
  if (!place.returned.wait_for(lock, std::chrono::seconds(30), [&] { return former->calls == 0; }))
    throw Error(ErrorKind::kTimeout,
                "set_sink(): a call of the former log sink has not returned after 30 seconds",
                "a sink must return, and not wait for the thread that calls set_sink()");
}

namespace internal {

bool has_sink() {
  const std::lock_guard lock(sink_place().mutex);
  return sink_place().sink != nullptr;
}

bool hand_over(Level level, std::string_view message, std::string_view name,
               const nlohmann::json* fields) {
  std::string why;
  {
    const SinkCall call;
    if (!call.sink()) return false;
    const bool taken = returns(
        [&] {
          const std::string text = printable_lines(message);
          constexpr std::string_view kHint = "\n  hint: ";
          Line line{.time = std::chrono::system_clock::now(), .level = level, .text = text};
          if (const size_t at = text.rfind(kHint); at != std::string::npos) {
            line.hint = line.text.substr(at + kHint.size());
            line.text = line.text.substr(0, at);
          }
          line.event = name;
          if (fields) {
            for (const auto& [key, value] : fields->items()) {
              line.fields.emplace_back(
                  key, value.is_string()
                           ? printable_lines(value.get_ref<const std::string&>())
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
            }
          }
          call.sink()->take(line);
        },
        &why);
    if (taken) return true;
    // Still in the sink: this line, which says why, goes to standard error.
    say_that_it_threw(why);
  }
  return false;
}

void flush_sink() {
  std::string why;
  const SinkCall call;
  if (!call.sink() || !call.sink()->flush) return;
  if (!returns(call.sink()->flush, &why)) say_that_it_threw(why);
}

}  // namespace internal
}  // namespace muster::inline v0_1::log
