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
    made->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::info);
    made->flush_on(spdlog::level::info);
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
