// Lists of a service, page after page, of which neither the names nor an end are taken on trust.
// Thread safety: free functions.
#pragma once

#include <functional>

#include "muster/base/clock.h"
#include "muster/stores/internal/object_service.h"

namespace muster::inline v0_1::stores::internal {

// What a page was good for.
enum class Seen {
  kNothingNew,
  kSomethingNew,
  kEnough,  // no further page is wanted
};

// Gives the pages of what is in `directory` to `take`, in their order, until there are no more.
// `flat` and `most` are those of ObjectService::list(). A list that takes long is said in the log
// every ten seconds. Returns what the service returns, and Corrupt, naming what is wrong, where
//
// - a name does not begin with what was asked for, holds a further slash where the list is not
//   flat, has more than 1024 bytes, or a zero byte;
// - a page asks for one that was there before, 1,000 pages in a row bring nothing new, or it comes
//   to more than 100,000 pages or 10,000,000 names.
Status list_pages(ObjectService& service, const ObjectName& directory, bool flat, int most,
                  Clock& clock, const std::function<Seen(ListPage&)>& take);

// The first page that holds something, or one that holds nothing.
Result<ListPage> first_page(ObjectService& service, const ObjectName& directory, bool flat,
                            int most, Clock& clock);

}  // namespace muster::inline v0_1::stores::internal
