#include "muster/formats/wav.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "muster/base/bytes.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

TEST(Wav, HasTheHeaderOfTheFormat) {
  const std::vector<float> samples = {0, 1, -1, 0.5f, 2, NAN};
  const std::string wav = encode_wav(samples, 2, 8000).value();
  ASSERT_EQ(wav.size(), 44u + 12);
  EXPECT_EQ(wav.substr(0, 4), "RIFF");
  EXPECT_EQ(load_little_endian<uint32_t>(&wav[4]), wav.size() - 8);
  EXPECT_EQ(wav.substr(8, 8), "WAVEfmt ");
  EXPECT_EQ(load_little_endian<uint32_t>(&wav[16]), 16u);
  EXPECT_EQ(load_little_endian<uint16_t>(&wav[20]), 1u);      // PCM
  EXPECT_EQ(load_little_endian<uint16_t>(&wav[22]), 2u);      // channels
  EXPECT_EQ(load_little_endian<uint32_t>(&wav[24]), 8000u);   // frames a second
  EXPECT_EQ(load_little_endian<uint32_t>(&wav[28]), 32000u);  // bytes a second
  EXPECT_EQ(load_little_endian<uint16_t>(&wav[32]), 4u);      // bytes a frame
  EXPECT_EQ(load_little_endian<uint16_t>(&wav[34]), 16u);     // bits
  EXPECT_EQ(wav.substr(36, 4), "data");
  EXPECT_EQ(load_little_endian<uint32_t>(&wav[40]), 12u);
  const int16_t expected[] = {0, 32767, -32767, 16384, 32767, 0};
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(load_little_endian<int16_t>(&wav[44 + 2 * i]), expected[i]) << i;
}

TEST(Wav, RefusesWhatTheHeaderCannotSay) {
  const std::vector<float> samples(3);
  EXPECT_THAT(encode_wav(samples, 0, 8000).error().message(), HasSubstr("channels = 0"));
  EXPECT_THAT(encode_wav(samples, 2, 8000).error().message(), HasSubstr("3 samples"));
  EXPECT_THAT(encode_wav(samples, 1, 0).error().message(), HasSubstr("sample_rate = 0"));
}

}  // namespace
}  // namespace muster::inline v0_1::formats
