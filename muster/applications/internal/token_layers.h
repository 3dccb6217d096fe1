// Layers of sequences of tokens that transformers have.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/layers/layer.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

// Puts a learned vector in front of the steps: [batch, T, width] -> [batch, T + 1, width].
// Variable: "embeddings" [width].
Layer ClassToken(Initializer initializer, std::string name);

// Adds a learned vector to each step: [batch, T, width], where T is `length` at most, and `length`
// where `exactly` is true. Variable: "embeddings" [length, width].
Layer PositionEmbedding(int64_t length, bool exactly, Initializer initializer, std::string name);

// Called on ids it gives their vectors: int64 or int32 [batch...] -> [batch..., width]. Called on
// vectors it gives how each id agrees with them: [batch..., width] -> [batch..., vocabulary], the
// products with the same table. Variable: "embeddings" [vocabulary, width], float32, which trains
// as a whole.
Layer TiedEmbedding(int64_t vocabulary, int64_t width, Initializer initializer, std::string name);

}  // namespace muster::inline v0_1::internal
