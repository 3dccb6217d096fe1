#include "muster/checkpoint/internal/state_file.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

#include "muster/base/strings.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr std::string_view kRetired = "# retired: ";

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\{:03o}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

int digit(char c, int base) {
  int value = std::isdigit(static_cast<unsigned char>(c)) ? c - '0'
              : c >= 'a' && c <= 'f'                      ? c - 'a' + 10
              : c >= 'A' && c <= 'F'                      ? c - 'A' + 10
                                                          : 99;
  return value < base ? value : -1;
}

// Reads one quoted string at the start of `text`, and moves `text` after it.
std::optional<std::string> unquote(std::string_view& text) {
  if (text.empty() || (text[0] != '"' && text[0] != '\'')) return std::nullopt;
  const char mark = text[0];
  std::string out;
  size_t i = 1;
  auto number = [&](int base, int max_digits) {
    int value = 0;
    for (int n = 0; n < max_digits && i < text.size() && digit(text[i], base) >= 0; ++n, ++i) {
      value = value * base + digit(text[i], base);
    }
    return static_cast<char>(value);
  };
  while (i < text.size() && text[i] != mark) {
    if (text[i] != '\\') {
      out += text[i++];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    if (digit(text[i], 8) >= 0) {
      out += number(8, 3);
    } else if (text[i] == 'x') {
      ++i;
      out += number(16, 2);
    } else {
      const char c = text[i++];
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  if (i == text.size()) return std::nullopt;
  text.remove_prefix(i + 1);
  return out;
}

}  // namespace

std::string CheckpointState::to_text() const {
  std::string text;
  if (!latest.empty()) text += fmt::format("model_checkpoint_path: {}\n", quote(latest));
  for (const Entry& entry : all) {
    text += fmt::format("all_model_checkpoint_paths: {}\n", quote(entry.name));
  }
  for (const Entry& entry : all) {
    text += fmt::format("all_model_checkpoint_timestamps: {}\n", entry.timestamp);
  }
  if (last_preserved != 0) text += fmt::format("last_preserved_timestamp: {}\n", last_preserved);
  for (const std::string& name : retired) text += fmt::format("{}{}\n", kRetired, quote(name));
  return text;
}

Result<CheckpointState> CheckpointState::parse(std::string_view text) {
  CheckpointState state;
  std::vector<double> timestamps;
  int line_number = 0;
  auto bad = [&](std::string_view line, std::string_view why) {
    // The line may be binary junk: shown quoted and cut.
    return corrupt(fmt::format("line {}: {}: {}", line_number, why, quote(line.substr(0, 80))));
  };
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line_number;
    if (line.starts_with(kRetired)) {
      std::string_view rest = line.substr(kRetired.size());
      if (auto name = unquote(rest)) state.retired.push_back(std::move(*name));
      continue;
    }
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return bad(line, "expected `field: value`");
    const std::string_view field = trim(line.substr(0, colon));
    std::string_view value = trim(line.substr(colon + 1));
    for (char c : field) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_')
        return bad(line, "not a field name");
    }
    if (field == "model_checkpoint_path" || field == "all_model_checkpoint_paths") {
      auto name = unquote(value);
      if (!name || name->empty()) return bad(line, "expected a quoted name");
      if (field == "model_checkpoint_path") {
        state.latest = std::move(*name);
      } else {
        state.all.push_back({.name = std::move(*name)});
      }
    } else if (field == "all_model_checkpoint_timestamps" || field == "last_preserved_timestamp") {
      double number = 0;
      auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc() || stop != value.data() + value.size()) {
        return bad(line, "expected a number");
      }
      if (field == "last_preserved_timestamp") {
        state.last_preserved = number;
      } else {
        timestamps.push_back(number);
      }
    }
  }
  // TensorFlow writes as many time stamps as names, or none.
  if (timestamps.size() == state.all.size()) {
    for (size_t i = 0; i < timestamps.size(); ++i) state.all[i].timestamp = timestamps[i];
  }
  if (state.latest.empty()) {
    ++line_number;
    return bad("", "no model_checkpoint_path");
  }
  return state;
}

}  // namespace muster::inline v0_1::internal
