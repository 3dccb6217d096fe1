// Invariants of messages between tasks (muster/net/message_fields.h), whatever their bytes are.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/error.h"
#include "muster/net/message_fields.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

// Reads a message out of `data`: an accepted message is written unchanged, and takes no more memory
// than its bytes allow; other bytes are Corrupt.
template <typename Message>
void read_message(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(bytes_of_input(data, size));
  try {
    const auto message =
        metered(parse_memory_limit(text.size()), [&] { return net::decode<Message>(text); });
    // A NaN need not be the same NaN, so bytes are compared after they were read twice.
    const std::string written = net::encode(message);
    require(written.size() == text.size(), "a message is as long as what it was read from");
    require(net::encode(net::decode<Message>(written)) == written,
            "what is written is read as it is");
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kCorrupt, "what is not a message is Corrupt");
  }
}

}  // namespace muster::fuzz
