#include "muster/export/signature.h"

namespace muster::inline v0_1 {

std::string method_name(SignatureMethod method) {
  switch (method) {
    case SignatureMethod::kClassify:
      return "classify";
    case SignatureMethod::kRegress:
      return "regress";
    case SignatureMethod::kPredict:
      break;
  }
  return "predict";
}

std::string RawFeature::describe() const {
  return (is_text ? "string" : dtype_name(dtype)) + muster::describe(shape);
}

std::string TensorInfo::describe() const { return dtype_name(dtype) + muster::describe(shape); }

}  // namespace muster::inline v0_1
