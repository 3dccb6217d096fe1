// parse_idx() of anything; an accepted file is written back as the same bytes.
#include "muster/formats/gzip.h"
#include "muster/formats/idx.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  using formats::IdxArray;
  using formats::IdxType;
  std::vector<std::string> made;
  for (const IdxType type :
       {IdxType::kUint8, IdxType::kInt16, IdxType::kInt32, IdxType::kFloat64}) {
    const IdxArray array{
        .type = type, .shape = {2, 3, 4}, .data = std::string(24 * size_of(type), 'a')};
    made.push_back(formats::encode_idx(array).value());
  }
  made.push_back(formats::encode_idx({.shape = {}, .data = "z"}).value());
  made.push_back(formats::encode_idx({.shape = {0, 28}}).value());
  made.push_back(formats::gzip(bytes_of(made[0])));
  return made;
}

std::vector<std::string> seed_folders() { return {"mnist", "fashion-mnist"}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  const uint64_t most =
      formats::is_gzip(bytes) ? unpack_memory_limit(size) : parse_memory_limit(size);
  const Result<formats::IdxArray> array =
      fuzz::metered(most, [&] { return formats::parse_idx(bytes, "input"); });
  if (!array.ok()) return 0;
  const Result<std::string> again = formats::encode_idx(array.value());
  fuzz::require(again.ok(), "what was read can be written");
  fuzz::require(formats::is_gzip(bytes) || again.value() == text_of(bytes),
                "what is written is what was read");
  return 0;
}
