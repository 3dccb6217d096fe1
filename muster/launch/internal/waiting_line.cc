#include "muster/launch/internal/waiting_line.h"

#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/json.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::launch::internal {
namespace {

constexpr std::string_view kWaiting = "waiting for ";
constexpr std::string_view kOfATask = " is waiting for ";

bool message_waits(std::string_view message) {
  if (message.starts_with(kWaiting)) return true;
  // "chief", "worker 12"
  const size_t end = message.find(kOfATask);
  if (end == std::string_view::npos) return false;
  const std::string_view task = message.substr(0, end);
  const size_t space = task.find(' ');
  return space == std::string_view::npos || parse_int(task.substr(space + 1)).has_value();
}

}  // namespace

bool says_it_waits(std::string_view line) {
  if (line.find(kWaiting) == std::string_view::npos) return false;  // most lines
  if (line.starts_with('{')) {
    const auto parsed = parse_json(line, "a line");
    if (!parsed.ok() || !parsed.value().is_object()) return false;
    const auto level = parsed.value().find("level"), message = parsed.value().find("message");
    return level != parsed.value().end() && message != parsed.value().end() &&
           message->is_string() && message_waits(message->get<std::string>());
  }
  // "I 12:03:45 message"
  constexpr size_t kTime = 11;
  return line.size() > kTime && std::string_view("DIWE").find(line[0]) != std::string_view::npos &&
         line[1] == ' ' && line[4] == ':' && line[7] == ':' && line[kTime - 1] == ' ' &&
         message_waits(line.substr(kTime));
}

}  // namespace muster::inline v0_1::launch::internal
