#include "muster/train/user_call.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1 {

void rethrow_with_place(std::string_view what, const std::string& where,
                        const std::function<std::string(const std::string& said)>& hint) {
  try {
    throw;
  } catch (const Error& error) {
    throw error.with_detail(where);
  } catch (const c10::Error& error) {
    const std::string said = text_of(error);
    throw converted_error(fmt::format("{} failed {}: {}", what, where, said),
                          [&] { return hint(said); });
  } catch (...) {
    log::error(fmt::format("{} failed {}", what, where));
    throw;
  }
}

std::string on_replica(const distribute::ReplicaPlace& place) {
  return place.replicas() == 1 ? "" : " on " + place.name();
}

std::optional<std::string> hint_of_mixed_devices(const std::string& said, Device device) {
  if (!tells_of_mixed_devices(said)) return std::nullopt;
  return fmt::format(
      "batches and variables are on {}: make other tensors there, with device() of the "
      "ModelContext or ReplicaContext",
      device.str());
}

}  // namespace muster::inline v0_1
