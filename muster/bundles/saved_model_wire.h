// The field numbers of the messages in a saved_model.pb, as TensorFlow's .proto files of
// SavedModel, MetaGraphDef, GraphDef and what these contain give them. Only those that are read or
// written.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::tensorflow::wire {

// SavedModel, MetaGraphDef and its parts.
enum class SavedModelField : uint32_t { kVersion = 1, kMetaGraph = 2 };
enum class MetaField : uint32_t {
  kInfo = 1,
  kGraph = 2,
  kSaver = 3,
  kCollection = 4,
  kSignature = 5,
  kAsset = 6,
  kObjects = 7,
};
enum class InfoField : uint32_t { kTag = 4 };
enum class SaverField : uint32_t { kFile = 1, kSave = 2, kRestore = 3, kMost = 4, kVersion = 7 };
enum class AssetField : uint32_t { kTensor = 1, kFile = 2 };
enum class SignatureField : uint32_t { kInput = 1, kOutput = 2, kMethod = 3 };
enum class TensorInfoField : uint32_t { kName = 1, kDtype = 2, kShape = 3 };
enum class RankField : uint32_t { kUnknown = 3 };  // of TensorShapeProto
enum class MapField : uint32_t { kKey = 1, kValue = 2 };

// CollectionDef, its lists, and the VariableDef in them.
enum class CollectionField : uint32_t { kNodes = 1, kBytes = 2 };
enum class ValuesField : uint32_t { kValue = 1 };
enum class VariableField : uint32_t {
  kName = 1,
  kInitializer = 2,
  kSnapshot = 3,
  kIsResource = 5,
  kInitialValue = 6,
};

// SavedObjectGraph, SavedObject and SavedVariable.
enum class ObjectsField : uint32_t { kNode = 1 };
enum class ObjectField : uint32_t { kVariable = 7 };
enum class SavedVariableField : uint32_t { kTrainable = 3, kName = 6 };

// GraphDef, FunctionDef with its OpDef, and NodeDef.
enum class GraphField : uint32_t { kNode = 1, kLibrary = 2, kVersions = 4 };
enum class VersionsField : uint32_t { kProducer = 1 };
enum class LibraryField : uint32_t { kFunction = 1 };
enum class FunctionField : uint32_t { kSignature = 1, kNode = 3, kReturn = 4 };
enum class OperationField : uint32_t { kName = 1, kInput = 2, kOutput = 3 };
enum class ArgumentField : uint32_t { kName = 1, kType = 3 };
enum class NodeField : uint32_t { kName = 1, kOperation = 2, kInput = 3, kAttribute = 5 };

// AttrValue, its list, NameAttrList and TensorProto.
enum class AttributeField : uint32_t {
  kList = 1,
  kText = 2,
  kInteger = 3,
  kNumber = 4,
  kFlag = 5,
  kType = 6,
  kShape = 7,
  kTensor = 8,
  kFunction = 10,
};
enum class ListField : uint32_t {
  kText = 2,
  kInteger = 3,
  kNumber = 4,
  kType = 6,
  kShape = 7,
  kFunction = 9,
};
enum class CalledField : uint32_t { kName = 1 };
enum class TensorField : uint32_t {
  kDtype = 1,
  kShape = 2,
  kContent = 4,
  kFloat = 5,
  kDouble = 6,
  kInt = 7,
  kText = 8,
  kInt64 = 10,
  kBool = 11,
  kHalf = 13,
};

}  // namespace muster::inline v0_1::tensorflow::wire
