#include "muster/base/hash.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/random.h"

namespace muster::inline v0_1 {
namespace {

std::vector<uint64_t> remainders(uint64_t (*hash)(std::string_view), uint64_t bins) {
  std::vector<uint64_t> all;
  for (const char* text : {"A", "B", "C", "D", "E"}) all.push_back(hash(text) % bins);
  return all;
}

// The numbers that Keras's documentation of Hashing shows.
TEST(HashTest, BucketsAreTensorFlows) {
  EXPECT_EQ(remainders(fingerprint64, 3), (std::vector<uint64_t>{1, 0, 1, 1, 2}));
  EXPECT_EQ(remainders(
                [](std::string_view text) {
                  return siphash64({133, 137}, text);
                },
                3),
            (std::vector<uint64_t>{1, 2, 1, 0, 2}));
  EXPECT_EQ(remainders(
                [](std::string_view text) {
                  return siphash64({133, 133}, text);
                },
                3),
            (std::vector<uint64_t>{0, 0, 2, 1, 0}));
}

// Appendix A of the paper.
TEST(HashTest, SipHashGivesTheNumberOfItsPaper) {
  std::string message;
  for (char i = 0; i < 15; ++i) message += i;
  EXPECT_EQ(siphash64({0x0706050403020100u, 0x0f0e0d0c0b0a0908u}, message), 0xa129ca6149be45e5u);
}

uint64_t openssl_siphash(const SipHashKey& key, std::string_view bytes) {
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> mac(
      EVP_MAC_fetch(nullptr, "SIPHASH", nullptr), EVP_MAC_free);
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      EVP_MAC_CTX_new(mac.get()), EVP_MAC_CTX_free);
  unsigned int size = 8;
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_SIZE, &size),
                               OSSL_PARAM_construct_end()};
  EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.data()), 16, params);
  EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  uint64_t result = 0;
  size_t written = 0;
  EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(&result), &written, 8);
  EXPECT_EQ(written, 8u);
  return result;
}

TEST(HashTest, SipHashIsOpenSslsForTextsOfAllLengths) {
  Random random(derive_key(3, {id_of("siphash")}));
  std::string text;
  for (int length = 0; length < 70; ++length) {
    const SipHashKey key{random.next_u64(), random.next_u64()};
    EXPECT_EQ(siphash64(key, text), openssl_siphash(key, text)) << length;
    text += static_cast<char>(random.next_u32());
  }
}

// Buckets are equally full: of 60 of them with 1000 texts each, none is five deviations off.
TEST(HashTest, BucketsAreEquallyFull) {
  std::vector<int> fast(60), strong(60);
  for (int i = 0; i < 60'000; ++i) {
    const std::string text = "user/" + std::to_string(i);
    ++fast[fingerprint64(text) % 60];
    ++strong[siphash64({1, 2}, text) % 60];
  }
  for (int i = 0; i < 60; ++i) {
    EXPECT_NEAR(fast[i], 1000, 158) << i;
    EXPECT_NEAR(strong[i], 1000, 158) << i;
  }
}

}  // namespace
}  // namespace muster::inline v0_1
