// Which names leave Muster's libraries: all others are hidden (-fvisibility=hidden). A class of
// plain fields needs no mark. cmake/face holds the lists of what is exported, and a test compares
// the libraries with it.
#pragma once

// For users: declared in a header that muster.h, torch.h or the header of a part reaches.
#define MUSTER_EXPORT __attribute__((visibility("default")))

// For Muster's other parts alone: it may change with every version.
#define MUSTER_PART_EXPORT __attribute__((visibility("default")))
