#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "muster/base/random.h"

namespace muster::fuzz {
namespace {

constexpr size_t kLongest = size_t{1} << 16;

class Mutation {
 public:
  Mutation(const std::vector<std::string>& seeds, Random random) : seeds_(seeds), random_(random) {
    text_ = any_seed();
  }

  std::string run() {
    // Mostly a little damage: the rest must pass the first checks to reach the later ones.
    const uint64_t steps = 1 + below(below(4) == 0 ? 12 : 3);
    for (uint64_t i = 0; i < steps; ++i) step();
    if (text_.size() > kLongest) text_.resize(kLongest);
    return std::move(text_);
  }

 private:
  uint64_t below(uint64_t n) { return random_.uniform_below(n); }
  const std::string& any_seed() { return seeds_[below(seeds_.size())]; }
  size_t any_place() {
    // Headers are short and matter most.
    return below(2) == 0 ? below(std::min<size_t>(text_.size(), 64)) : below(text_.size());
  }
  std::string piece_of(const std::string& from) {
    if (from.empty()) return {};
    const size_t begin = below(from.size());
    return from.substr(begin, 1 + below(std::min<size_t>(from.size() - begin, 64)));
  }

  void step() {
    if (text_.empty()) {
      text_ = piece_of(any_seed());
      return;
    }
    switch (below(9)) {
      case 0:
        text_[any_place()] ^= static_cast<char>(1u << below(8));
        break;
      case 1:
        text_[any_place()] = static_cast<char>(below(256));
        break;
      case 2:
        text_.resize(below(text_.size() + 1));
        break;
      case 3:
        text_.erase(any_place(), 1 + below(16));
        break;
      case 4:
        text_.insert(any_place(), piece_of(text_));
        break;
      case 5:
        text_.insert(any_place(), piece_of(any_seed()));
        break;
      case 6:
        splice();
        break;
      default:
        set_number();
    }
  }

  // The beginning of one and the end of another.
  void splice() {
    const std::string& other = any_seed();
    text_.resize(any_place());
    if (!other.empty()) text_ += other.substr(below(other.size()));
  }

  // A length, count or offset, of any width and either byte order, or as digits.
  void set_number() {
    static constexpr uint64_t kNumbers[] = {
        0,       1,          0x7f,       0x80,       0xff,       0x7fff,    0x8000,     0xffff,
        0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX};
    uint64_t number = kNumbers[below(std::size(kNumbers))];
    if (below(3) == 0) number = text_.size() + below(5) - 2;
    if (below(3) == 0) number += below(17) - 8;
    const size_t at = any_place();
    if (below(6) == 0) {
      const std::string digits = std::to_string(number);
      text_.replace(at, std::min(digits.size(), text_.size() - at), digits);
      return;
    }
    const size_t width = std::min<size_t>(size_t{1} << below(4), text_.size() - at);
    char bytes[8];
    std::memcpy(bytes, &number, sizeof(bytes));
    if (below(2) == 0) std::reverse(bytes, bytes + width);
    text_.replace(at, width, bytes, width);
  }

  const std::vector<std::string>& seeds_;
  Random random_;
  std::string text_;
};

}  // namespace

std::string make_input(const std::vector<std::string>& seeds, const std::string& target,
                       uint64_t index) {
  if (index < seeds.size()) return seeds[index];
  return Mutation(seeds, Random(derive_key(index, {id_of(target)}))).run();
}

}  // namespace muster::fuzz
