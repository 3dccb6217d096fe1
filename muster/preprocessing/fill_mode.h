// The pixels beyond the edges of an image.
#pragma once

namespace muster::inline v0_1 {

// For pixels a b c d in a row:
enum class FillMode {
  kReflect,   // d c b a | a b c d | d c b a
  kWrap,      // a b c d | a b c d | a b c d
  kConstant,  // k k k k | a b c d | k k k k, with a value k
  kNearest,   // a a a a | a b c d | d d d d
};

}  // namespace muster::inline v0_1
