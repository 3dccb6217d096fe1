#include "muster/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace muster::log {
namespace {

spdlog::logger& logger() {
  // Never destroyed: threads that end late may still want to say why.
  static spdlog::logger* const instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
        std::getenv("NO_COLOR") != nullptr ? spdlog::color_mode::never
                                           : spdlog::color_mode::automatic);
    auto* made = new spdlog::logger("muster", std::move(sink));
    made->set_pattern("%^%L%$ %H:%M:%S %v");
    const char* level = std::getenv("MUSTER_LOG_LEVEL");
    const std::string_view wanted = level != nullptr ? level : "";
    const auto known = spdlog::level::from_str(std::string(wanted));
    // Unknown words are "off" to spdlog, which would also silence the error that ends a run.
    const bool understood = known != spdlog::level::off || wanted == "off";
    made->set_level(understood ? known : spdlog::level::info);
    made->flush_on(spdlog::level::info);
    if (!understood && !wanted.empty()) {
      made->warn(
          "MUSTER_LOG_LEVEL is '{}': going on with info; use debug, info, warning, error or off",
          wanted);
    }
    return made;
  }();
  return *instance;
}

}  // namespace

void debug(std::string_view message) { logger().debug("{}", message); }
void info(std::string_view message) { logger().info("{}", message); }
void warning(std::string_view message) { logger().warn("{}", message); }
void error(std::string_view message) { logger().error("{}", message); }

void warning_once(std::string_view message) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>();
  {
    std::lock_guard lock(mutex);
    if (!said->insert(std::string(message)).second) return;
  }
  warning(message);
}

void flush() { logger().flush(); }

}  // namespace muster::log
