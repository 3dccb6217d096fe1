#include "muster/launch/said_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/json.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::launch {
namespace {

constexpr std::string_view kOfCommand = "error:";
// The causes and the hint of an error are short.
constexpr std::size_t kMostClosing = 8;

bool is_of_log(std::string_view line) {
  return line.size() > 2 && line.starts_with("E ") && line[2] >= '0' && line[2] <= '9';
}

// The message of an error in the log's JSON form; nothing for any other line.
std::optional<std::string> message_of_object(std::string_view line) {
  // Most lines are none, and cost nothing.
  if (!line.starts_with('{') || line.find("\"error\"") == std::string_view::npos)
    return std::nullopt;
  const auto parsed = parse_json(line, "a line");
  if (!parsed.ok() || !parsed.value().is_object()) return std::nullopt;
  const auto is_text = [&](const char* key) {
    const auto it = parsed.value().find(key);
    return it != parsed.value().end() && it->is_string();
  };
  if (!is_text("level") || parsed.value()["level"] != "error" || !is_text("message"))
    return std::nullopt;
  return parsed.value()["message"].get<std::string>();
}

bool is_closing(std::string_view line) {
  const std::string_view words = trim(line);
  return words.starts_with("hint: ") || words.starts_with("caused by: ");
}

}  // namespace

bool is_error_line(std::string_view line) {
  return line.starts_with(kOfCommand) || is_of_log(line) || message_of_object(line).has_value();
}

std::string error_words(std::string_view line) {
  if (const auto message = message_of_object(line)) return message->substr(0, message->find('\n'));
  const std::size_t end = line.find(' ', 2);
  return std::string(is_of_log(line) && end != std::string_view::npos ? line.substr(end + 1)
                                                                      : line);
}

bool blames_another(std::string_view error) {
  return error.find("PeerLost: ") != std::string_view::npos ||
         error.find("Timeout: ") != std::string_view::npos;
}

bool repeats_another(std::string_view error) {
  const std::string_view before = error.substr(0, error.find(" failed "));
  const std::size_t colon = before.rfind(": ");
  if (before.size() == error.size() || colon == std::string_view::npos) return false;
  const std::string_view task = before.substr(colon + 2);
  return task == "chief" || task.starts_with("worker ") || task.starts_with("ps ");
}

std::string task_blamed(std::string_view error) {
  constexpr std::array<std::string_view, 3> kRoles = {"chief", "worker", "ps"};
  // Words of letters and digits; the characters between them do not count.
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::string_view role;
  while (!error.empty()) {
    const auto begin = std::ranges::find_if(error, in_word);
    const auto end = std::find_if_not(begin, error.end(), in_word);
    const std::string_view word(begin, end);
    error = std::string_view(end, error.end());
    const auto number = parse_int(word);
    if (!role.empty() && number) return fmt::format("{}-{}", role, *number);
    if (role == "chief") break;
    const auto it = std::ranges::find(kRoles, word);
    role = it == kRoles.end() ? std::string_view() : *it;
  }
  return role == "chief" ? "chief-0" : "";
}

bool SaidError::add(std::string_view line) {
  const auto message = message_of_object(line);
  if (message || line.starts_with(kOfCommand) || is_of_log(line)) {
    *this = SaidError();
    of_command_ = line.starts_with(kOfCommand);
    // An object is whole in its line.
    open_ = !message;
    for (const std::string& one : message ? split(*message, '\n') : std::vector{std::string(line)})
      keep(one);
    return true;
  }
  open_ = open_ && (line.starts_with(' ') || line.starts_with('\t') ||
                    (of_command_ && line.starts_with("hint: ")));
  if (open_) keep(line);
  return open_;
}

void SaidError::keep(std::string_view line) {
  ++count_;
  if (first_.size() < kMostLines) first_.emplace_back(line);
  last_.emplace_back(line);
  if (last_.size() > kMostClosing) last_.pop_front();
}

std::vector<std::string> SaidError::lines() const {
  if (count_ <= kMostLines) return first_;
  const auto closing = std::ranges::find_if(last_, is_closing);
  const auto closing_count = static_cast<std::size_t>(last_.end() - closing);
  const std::size_t shown = kMostLines - 1 - closing_count;
  std::vector<std::string> lines(first_.begin(),
                                 first_.begin() + static_cast<std::ptrdiff_t>(shown));
  lines.push_back(fmt::format("  ... and {} more", count_ - shown - closing_count));
  lines.insert(lines.end(), closing, last_.end());
  return lines;
}

}  // namespace muster::inline v0_1::launch
