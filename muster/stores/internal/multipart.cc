#include "muster/stores/internal/multipart.h"

#include <algorithm>
#include <pugixml.hpp>

namespace muster::inline v0_1::stores::internal {

Result<std::string> upload_id_of(const std::string& body, const ObjectName& object,
                                 const std::string& variable) {
  pugi::xml_document xml;
  xml.load_string(body.c_str());
  std::string id = xml.child("InitiateMultipartUploadResult").child_value("UploadId");
  if (!id.empty()) return id;
  return invalid_argument(
      "cannot begin to write '" + object.uri() + "': the answer names no upload",
      "check " + variable + ": another service seems to answer there");
}

size_t bytes_of_part(size_t first, int number) { return first << std::min((number - 1) / 1000, 9); }

}  // namespace muster::inline v0_1::stores::internal
