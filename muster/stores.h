// Paths in buckets and on web servers (s3://, gs://, http://). A program that links the library,
// muster::stores, can use them without further calls; include this header to change their limits.
#pragma once

#include "muster/stores/gcs_store.h"
#include "muster/stores/http_store.h"
#include "muster/stores/kubernetes_api.h"
#include "muster/stores/s3_store.h"
#include "muster/stores/store_options.h"
#include "muster/stores/stores.h"
