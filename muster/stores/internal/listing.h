// Lists of a service, page after page, of which neither the names nor an end are taken on trust.
// Thread safety: free functions.
#pragma once

#include <functional>

#include "muster/base/clock.h"
#include "muster/stores/internal/object_service.h"

namespace muster::inline v0_1::stores::internal {

// The result of a page.
enum class Seen {
  kNothingNew,
  kSomethingNew,
  kEnough,  // no further page is wanted
};

// Passes the pages of `directory` to `take`, in their order, until there are no more. `flat` and
// `most` are as in ObjectService::list(). A list that takes long is logged every ten seconds.
// Returns the service's errors, and Corrupt, naming the fault, if
//
// - a name does not begin with the requested prefix, holds a further slash if the list is not flat,
//   has more than 1024 bytes, or a zero byte;
// - a page asks for an earlier one, 1,000 pages in a row bring nothing new, or it comes to more
//   than 100,000 pages or 10,000,000 names.
Status list_pages(ObjectService& service, const ObjectName& directory, bool flat, int most,
                  Clock& clock, const std::function<Seen(ListPage&)>& take);

// The first page with entries, or one without any if there are none.
Result<ListPage> first_page(ObjectService& service, const ObjectName& directory, bool flat,
                            int most, Clock& clock);

}  // namespace muster::inline v0_1::stores::internal
