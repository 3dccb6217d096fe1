// A queue that another thread of the program fills with elements, as a data set.
//
//   auto queue = std::make_shared<data::ElementQueue>();
//   std::thread producer([queue] { while (...) queue->push(element); queue->close(); });
//   estimator.train([&] { return data::from_queue(queue).batch(32); });
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// Options of an ElementQueue.
struct ElementQueueOptions {
  size_t capacity = 1024;  // elements that wait in the queue; at least 1
  // How long push() waits for space, and pop() for an element. Both throw Timeout then.
  Seconds push_timeout{600};
  Seconds pop_timeout{600};
};

// Elements between threads, in order. Thread safety: any number of threads push and pop.
class MUSTER_EXPORT ElementQueue {
 public:
  // Throws InvalidArgument for a capacity of 0 and for a timeout that is not positive.
  explicit ElementQueue(const ElementQueueOptions& options = {});
  ~ElementQueue();
  ElementQueue(const ElementQueue&) = delete;
  ElementQueue& operator=(const ElementQueue&) = delete;

  // Appends an element; waits while the queue is full. Returns false, and drops the element, if the
  // queue is or gets closed. Throws Timeout.
  bool push(Element element);
  // No element gets in any more. Those inside are still popped; then the data ends.
  void close();
  // Closes with an error: pop() throws it once, after the elements inside. Pass what the producer
  // caught: `catch (...) { queue->fail(std::current_exception()); }`.
  void fail(std::exception_ptr error);
  // Takes the first element; waits while the queue is empty. Nothing once it is closed and empty.
  // Throws Timeout, and the error of fail().
  std::optional<Element> pop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads the elements of a queue, each once. It is a live source: a restored iterator continues with
// the elements that come next, and logs once that those before it are not read again; elements that
// a shuffle, a batch or a prefetch held at the end of a run are lost, and so is the batch from
// which a run that continues learns the shapes for its model. On several workers each worker has
// its own queue and reads all of it, and positions belong to the same number of workers. The error
// of fail() is thrown at its position, and the data ends after it. A pass of repeat() continues
// with the queue. If the pipeline ends with prefetch(), request_stop(), RunConfig::cancelled,
// ClusterOptions::cancelled and signals also end a run that waits for an element. Throws
// InvalidArgument without a queue.
MUSTER_EXPORT Dataset from_queue(std::shared_ptr<ElementQueue> queue);

}  // namespace muster::inline v0_1::data
