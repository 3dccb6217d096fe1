// All of Muster's public API: that of each part.
#pragma once

#include "muster/core.h"
#include "muster/keras.h"
#include "muster/kerasfiles.h"
#include "muster/onnx.h"
#include "muster/servers.h"
#include "muster/stores.h"
#include "muster/tabular.h"
#include "muster/tensorflow.h"
#include "muster/tpu.h"
