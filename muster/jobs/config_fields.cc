#include "muster/jobs/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/nearest.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs {
namespace {

using Kind = ConfigValue::Kind;

// "workerCount" gives "worker_count".
std::string snake_case(const std::string& camel) {
  std::string snake;
  for (const char c : camel) {
    if (c >= 'A' && c <= 'Z') {
      snake += '_';
      snake += static_cast<char>(c - 'A' + 'a');
    } else {
      snake += c;
    }
  }
  return snake;
}

std::string camel_case(const std::string& snake) {
  std::string camel;
  for (size_t i = 0; i < snake.size(); ++i) {
    const bool next = snake[i] == '_' && i + 1 < snake.size();
    const char c = next ? snake[++i] : snake[i];
    camel += next && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return camel;
}

// Whether the file means this key, in either way to write it.
bool is_key(const ConfigMember& member, const std::string& key) {
  return member.key == key || member.key == snake_case(key);
}

const ConfigValue& no_value() {
  static const ConfigValue none;
  return none;
}

}  // namespace

ConfigFields::ConfigFields(const ConfigFile& file, const ConfigValue& map,
                           const std::vector<std::string>& keys)
    : file_(file), map_(map.kind == Kind::kMap ? map : no_value()) {
  if (map.kind != Kind::kMap && map.kind != Kind::kNull) {
    wrong(map, "a map of keys", "write its keys below it, indented by two blanks");
  }
  for (const ConfigMember& member : map.members) {
    const auto known =
        std::ranges::find_if(keys, [&](const std::string& key) { return is_key(member, key); });
    if (known == keys.end()) {
      const auto near = nearest(member.key, keys);
      file.note(
          {.place = member.place,
           .message = fmt::format("{} has no key '{}'", map.path.empty() ? "the file" : map.path,
                                  printable_beginning(member.key)),
           .hint =
               near ? fmt::format("did you mean {}?", *near) : "it may have " + join(keys, ", "),
           .about = {path_of(near.value_or(member.key))}});
      continue;
    }
    const ConfigMember* first = this->member(*known);
    if (first == &member) continue;
    file.note({.place = member.place,
               .message = fmt::format("{} stands here, and as {} in line {}", member.key,
                                      first->key, first->place.line),
               .hint = "keep one of the two",
               .about = {path_of(*known)}});
  }
}

const ConfigMember* ConfigFields::member(const std::string& key) const {
  const auto found = std::ranges::find_if(
      map_.members, [&](const ConfigMember& member) { return is_key(member, key); });
  return found == map_.members.end() ? nullptr : &*found;
}

const ConfigValue* ConfigFields::find(const std::string& key) const {
  const ConfigMember* found = member(key);
  return found == nullptr || found->value.kind == Kind::kNull ? nullptr : &found->value;
}

void ConfigFields::wrong(const ConfigValue& value, const std::string& wanted,
                         const std::string& hint) const {
  // Callers ask for a missing key by its name in camelCase; the value knows how the file writes it.
  std::vector<std::string> about = {value.path};
  for (const ConfigMember& member : map_.members) {
    if (&member.value == &value) about = {path_of(camel_case(member.key))};
  }
  file_.note({.place = value.place,
              .message = fmt::format("{} is {}; it must be {}",
                                     value.path.empty() ? "the whole file" : value.path,
                                     value.shown(), wanted),
              .hint = hint,
              .about = about});
}

const ConfigValue* ConfigFields::scalar(const std::string& key, const std::string& wanted) const {
  const ConfigValue* value = find(key);
  if (value == nullptr || value->kind == Kind::kScalar) return value;
  wrong(*value, wanted);
  return nullptr;
}

std::optional<std::string> ConfigFields::text(const std::string& key) const {
  const ConfigValue* value = scalar(key, "a text");
  return value == nullptr ? std::nullopt : std::optional(value->text);
}

std::optional<int64_t> ConfigFields::whole(const std::string& key, int64_t most) const {
  const std::string wanted = fmt::format("a whole number from 0 to {}", most);
  const ConfigValue* value = scalar(key, wanted);
  if (value == nullptr) return std::nullopt;
  const auto number = parse_int(trim(value->text));
  if (number && *number >= 0 && *number <= most) return number;
  wrong(*value, wanted);
  return std::nullopt;
}

std::optional<bool> ConfigFields::truth(const std::string& key) const {
  const ConfigValue* value = scalar(key, "true or false");
  if (value == nullptr) return std::nullopt;
  const std::string word = to_lower(value->text);
  // The words that YAML 1.1 takes for truth, which the tools of these services read.
  for (const char* yes : {"true", "yes", "on"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "no", "off"}) {
    if (word == no) return false;
  }
  wrong(*value, "true or false");
  return std::nullopt;
}

std::optional<double> ConfigFields::to_number(const ConfigValue& value) const {
  const auto number =
      value.kind == Kind::kScalar ? parse_double(trim(value.text)) : std::optional<double>();
  if (number && std::isfinite(*number)) return number;
  wrong(value, "a number");
  return std::nullopt;
}

std::optional<double> ConfigFields::number(const std::string& key) const {
  const ConfigValue* value = find(key);
  return value == nullptr ? std::nullopt : to_number(*value);
}

std::optional<int64_t> ConfigFields::seconds(const std::string& key) const {
  const std::string wanted = "a time in seconds, such as 3600s";
  const ConfigValue* value = scalar(key, wanted);
  if (value == nullptr) return std::nullopt;
  std::string_view digits = trim(value->text);
  if (digits.ends_with('s')) digits.remove_suffix(1);
  const auto number = parse_double(digits);
  constexpr double kMost = 1e10;
  if (!number || !(*number >= 0) || *number > kMost) {
    wrong(*value, wanted, "hours and minutes are written in seconds: 2 hours are 7200s");
    return std::nullopt;
  }
  return static_cast<int64_t>(std::ceil(*number));
}

std::optional<size_t> ConfigFields::choice(
    const std::string& key, const std::vector<std::string>& names,
    const std::map<std::string, std::string>& elsewhere) const {
  const std::string wanted = "one of: " + join(names, ", ");
  const ConfigValue* value = scalar(key, wanted);
  if (value == nullptr) return std::nullopt;
  for (size_t i = 0; i < names.size(); ++i) {
    if (to_lower(names[i]) == to_lower(value->text)) return i;
  }
  std::optional<std::string> near = nearest(value->text, names);
  for (const auto& [word, meant] : elsewhere) {
    if (to_lower(word) == to_lower(value->text)) near = meant;
  }
  wrong(*value, wanted, near ? fmt::format("did you mean {}?", *near) : "");
  return std::nullopt;
}

std::vector<const ConfigValue*> ConfigFields::list(const std::string& key) const {
  const ConfigValue* value = find(key);
  if (value == nullptr) return {};
  if (value->kind != Kind::kList) {
    wrong(*value, "a list", "write each of its values on a line of its own behind '- '");
    return {};
  }
  std::vector<const ConfigValue*> items;
  for (const ConfigValue& item : value->items) items.push_back(&item);
  return items;
}

std::vector<std::string> ConfigFields::texts(const std::string& key) const {
  std::vector<std::string> values;
  for (const ConfigValue* item : list(key)) {
    if (item->kind == Kind::kScalar) {
      values.push_back(item->text);
    } else {
      wrong(*item, "a text");
    }
  }
  return values;
}

std::vector<double> ConfigFields::numbers(const std::string& key) const {
  std::vector<double> values;
  for (const ConfigValue* item : list(key)) {
    if (const auto number = to_number(*item)) values.push_back(*number);
  }
  return values;
}

std::vector<std::pair<std::string, std::string>> ConfigFields::pairs(const std::string& key) const {
  std::vector<std::pair<std::string, std::string>> values;
  const ConfigValue* map = find(key);
  if (map == nullptr) return values;
  if (map->kind != Kind::kMap) {
    wrong(*map, "a map from names to texts");
    return values;
  }
  for (const ConfigMember& member : map->members) {
    if (member.value.kind == Kind::kList || member.value.kind == Kind::kMap) {
      wrong(member.value, "a text");
      continue;
    }
    values.emplace_back(member.key, member.value.text);
  }
  return values;
}

ConfigFields ConfigFields::fields(const std::string& key,
                                  const std::vector<std::string>& keys) const {
  const ConfigValue* value = find(key);
  return {file_, value == nullptr ? no_value() : *value, keys};
}

void ConfigFields::note(const std::string& key, const std::string& message, const std::string& hint,
                        const std::vector<std::string>& also) const {
  const ConfigMember* at = member(key);
  std::vector<std::string> about = {path_of(key)};
  for (const std::string& other : also) about.push_back(path_of(other));
  file_.note({.place = at != nullptr ? at->place : map_.place,
              .message = message,
              .hint = hint,
              .about = std::move(about)});
}

std::string ConfigFields::path(const std::string& key) const {
  const ConfigMember* at = member(key);
  const std::string name = at != nullptr ? at->key : key;
  return map_.path.empty() ? name : map_.path + "." + name;
}

}  // namespace muster::inline v0_1::jobs
