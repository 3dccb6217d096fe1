#include "muster/jobs/internal/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/json.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs::internal {

namespace {

// The text without runs of at least as many hexadecimal digits as a token has: a resource that
// comes back may hold the job's token.
std::string without_secrets(const std::string& text) {
  constexpr size_t kDigits = 32;
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_not_of("0123456789abcdef", at), text.size());
    const std::string run = text.substr(at, std::max<size_t>(1, end - at));
    shown += run.size() < kDigits ? run : "[not shown]";
    at += run.size();
  }
  return shown;
}

}  // namespace

Error unexpected_answer(const std::string& what, const std::string& asked, std::string_view said,
                        const std::string& why) {
  constexpr size_t kShown = 200;
  // Blanks of a document that is laid out for people say nothing.
  std::string text;
  for (const char c : without_secrets(std::string(trim(said.substr(0, 2000))))) {
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!blank) text += c;
    if (blank && (text.empty() || text.back() != ' ')) text += ' ';
  }
  return Error(
      ErrorKind::kUnavailable,
      fmt::format("{}: {} answered {}, {}", what, asked,
                  text.empty() ? "nothing" : "'" + printable_beginning(text, kShown) + "'", why),
      fmt::format("try again; if the answer is the same, run the command yourself ({}), and check "
                  "its version and any proxy before the service",
                  asked));
}

Answer::Answer(std::string what, std::string asked, std::string_view text)
    : what_(std::move(what)), asked_(std::move(asked)), said_(text.substr(0, 2000)) {
  auto parsed = parse_json(text, "the answer");
  if (!parsed.ok()) {
    throw unexpected_answer(
        what_, asked_, said_,
        fmt::format("{} bytes that are not a whole JSON document", text.size()));
  }
  json_ = std::move(parsed).value();
}

const nlohmann::json& Answer::at(const std::string& pointer, const char* kind,
                                 bool (*is)(const nlohmann::json&)) const {
  const nlohmann::json::json_pointer place(pointer);
  if (json_.contains(place) && is(json_.at(place))) return json_.at(place);
  throw unexpected_answer(what_, asked_, said_,
                          pointer.empty()
                              ? fmt::format("which is not {}", kind)
                              : fmt::format("where {} is not {}", pointer.substr(1), kind));
}

std::string Answer::text(const std::string& pointer) const {
  return at(pointer, "text", [](const nlohmann::json& value) { return value.is_string(); })
      .get<std::string>();
}

const nlohmann::json& Answer::list(const std::string& pointer) const {
  return at(pointer, "a list", [](const nlohmann::json& value) { return value.is_array(); });
}

std::vector<std::string> names_in(const nlohmann::json& resources) {
  std::vector<std::string> names;
  for (const nlohmann::json& resource : resources) {
    if (std::string name = text_or_nothing(resource, "/name"); !name.empty())
      names.push_back(std::move(name));
  }
  return names;
}

std::string text_or_nothing(const nlohmann::json& value, const std::string& pointer) {
  const nlohmann::json::json_pointer place(pointer);
  return value.contains(place) && value.at(place).is_string() ? value.at(place).get<std::string>()
                                                              : "";
}

}  // namespace muster::inline v0_1::jobs::internal
