// Marks the names that Muster's libraries export; all others are hidden (-fvisibility=hidden). A
// class of plain fields needs no mark. cmake/face holds the lists of exported names, and a test
// compares the libraries with them.
#pragma once

// For users: declared in a header that muster.h, torch.h or the header of a part includes.
#define MUSTER_EXPORT __attribute__((visibility("default")))

// For Muster's other parts only: it may change with every version.
#define MUSTER_PART_EXPORT __attribute__((visibility("default")))
