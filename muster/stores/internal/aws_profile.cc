#include "muster/stores/internal/aws_profile.h"

#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::stores::internal {

AwsProfiles parse_aws_profiles(std::string_view text) {
  AwsProfiles profiles;
  std::map<std::string, std::string>* settings = nullptr;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view words = trim(line);
    if (words.empty() || words[0] == '#' || words[0] == ';') continue;
    if (words.front() == '[' && words.back() == ']') {
      std::string_view name = trim(words.substr(1, words.size() - 2));
      if (name.starts_with("profile ")) name = trim(name.substr(8));
      settings = &profiles[std::string(name)];
      continue;
    }
    // An indented line belongs to a setting with parts of its own, of which we need none.
    const bool nested = line[0] == ' ' || line[0] == '\t';
    const size_t equals = words.find('=');
    if (settings == nullptr || nested || equals == 0 || equals == std::string_view::npos) continue;
    (*settings)[to_lower(trim(words.substr(0, equals)))] = trim(words.substr(equals + 1));
  }
  return profiles;
}

Result<AwsProfile> read_aws_profile(const Environment& environment) {
  const std::string home = environment.get_or("HOME", "");
  const std::vector<std::string> paths = {
      environment.get_or("AWS_CONFIG_FILE", home + "/.aws/config"),
      environment.get_or("AWS_SHARED_CREDENTIALS_FILE", home + "/.aws/credentials")};
  AwsProfile profile;
  const std::string asked = environment.get_or("AWS_PROFILE", "");
  profile.name = asked.empty() ? "default" : asked;
  for (const std::string& path : paths) {
    Result<std::string> text = local_file_system().read_file(path);
    if (!text.ok()) {
      if (text.error().kind() == ErrorKind::kNotFound) continue;
      return text.error();
    }
    const AwsProfiles profiles = parse_aws_profiles(text.value());
    const auto found = profiles.find(profile.name);
    if (found == profiles.end()) continue;
    for (const auto& [name, value] : found->second) profile.settings[name] = value;
    profile.from = profile.from.empty() ? path : profile.from + " and " + path;
  }
  if (profile.from.empty() && !asked.empty()) {
    return not_found("AWS_PROFILE is '" + asked + "', and neither '" + paths[1] + "' nor '" +
                         paths[0] + "' has such a profile",
                     "name one of those files' profiles, or unset AWS_PROFILE");
  }
  return profile;
}

}  // namespace muster::inline v0_1::stores::internal
