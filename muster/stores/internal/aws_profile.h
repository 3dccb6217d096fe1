// The configuration files of Amazon's tools. Thread safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "muster/base/environment.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::stores::internal {

// The settings of each profile: "[default]", "[profile work]" and "[work]" alike.
using AwsProfiles = std::map<std::string, std::map<std::string, std::string>>;
AwsProfiles parse_aws_profiles(std::string_view text);

// One profile, as both files have it; the file of credentials counts where both say something.
struct AwsProfile {
  std::string name;
  std::string from;  // the files it was found in, for messages; empty: in none
  std::map<std::string, std::string> settings;
};

// Reads the profile that AWS_PROFILE names, else "default", of AWS_SHARED_CREDENTIALS_FILE (else
// ~/.aws/credentials) and AWS_CONFIG_FILE (else ~/.aws/config). Returns NotFound if AWS_PROFILE
// names one that is in neither.
Result<AwsProfile> read_aws_profile(const Environment& environment);

}  // namespace muster::inline v0_1::stores::internal
