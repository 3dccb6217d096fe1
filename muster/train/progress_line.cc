#include "muster/train/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace muster::inline v0_1 {
namespace {

constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 8;

// "0:07", "1:02:03"
std::string clock_text(double seconds) {
  const auto total = static_cast<int64_t>(seconds + 0.5);
  if (total >= 3600)
    return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string values(const ProgressFacts& facts) {
  std::string text = "  loss " + value_text(facts.loss);
  for (const auto& [name, value] : facts.metrics)
    text += fmt::format("  {} {}", name, value_text(value));
  return text;
}

int64_t percent(const ProgressFacts& facts) {
  return static_cast<int64_t>(static_cast<double>(facts.step) * 100 /
                              static_cast<double>(facts.last_step));
}

std::string bar(double share, int width, bool unicode) {
  const int halves = std::clamp(static_cast<int>(share * 2 * width), 0, 2 * width);
  std::string text;
  for (int i = 0; i < width; ++i) {
    if (unicode) {
      text += 2 * i + 1 < halves ? "━" : 2 * i < halves ? "╸" : "─";
    } else {
      text += 2 * i + 1 < halves ? '#' : '-';
    }
  }
  return text;
}

}  // namespace

double ProgressFacts::seconds_left() const {
  if (steps_per_second <= 0 || last_step <= step) return -1;
  return static_cast<double>(last_step - step) / steps_per_second;
}

std::string value_text(double value) {
  const bool hidden = value != 0 && std::abs(value) < 0.001;
  return hidden ? fmt::format("{:.3g}", value) : fmt::format("{:.4f}", value);
}

std::string progress_line(const ProgressFacts& facts) {
  std::string text = facts.last_step > 0 ? fmt::format("step {}/{} ({}%)", facts.step,
                                                       facts.last_step, percent(facts))
                                         : fmt::format("step {}", facts.step);
  text += values(facts);
  if (facts.steps_per_second > 0) {
    text += fmt::format("  {:.0f} examples/s  {:.1f} steps/s", facts.examples_per_second,
                        facts.steps_per_second);
  }
  if (facts.seconds_left() >= 0) text += fmt::format("  {} left", clock_text(facts.seconds_left()));
  return text;
}

std::string progress_bar(const ProgressFacts& facts, int columns, bool unicode) {
  const auto width = [](const std::string& text) { return static_cast<int>(text.size()); };
  const bool known = facts.last_step > 0;
  std::string text = known ? fmt::format("step {}/{}", facts.step, facts.last_step)
                           : fmt::format("step {}", facts.step);
  const std::string left =
      facts.seconds_left() >= 0 ? fmt::format("  {} left", clock_text(facts.seconds_left())) : "";
  const std::string share = known ? fmt::format(" {}%", percent(facts)) : "";
  // Each takes its space while there is some, and the bar takes the rest.
  std::vector<std::string> parts{"  loss " + value_text(facts.loss)};
  for (const auto& [name, value] : facts.metrics)
    parts.push_back(fmt::format("  {} {}", name, value_text(value)));
  if (facts.examples_per_second > 0)
    parts.push_back(fmt::format("  {:.0f} examples/s", facts.examples_per_second));
  int room = columns - width(text) - width(share) - width(left);
  if (known) room -= 1 + kNarrowestBar;
  std::string shown;
  for (const std::string& part : parts) {
    if (width(part) > room) break;
    room -= width(part);
    shown += part;
  }
  if (known && room >= 0) {
    const double done = static_cast<double>(facts.step) / static_cast<double>(facts.last_step);
    text += " " + bar(done, std::min(kWidestBar, kNarrowestBar + room), unicode);
  }
  return text + share + shown + left;
}

bool terminal_reads_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos ||
           locale.find("utf-8") != locale.npos;
  }
  return false;
}

}  // namespace muster::inline v0_1
