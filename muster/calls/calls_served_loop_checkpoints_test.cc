// Laws of the checkpoints of loops written by hand on parameter servers: who saves, and who goes
// on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/train/late_error.h"
#include "tests/support/held_save.h"
#include "tests/support/run_ranks.h"
#include "tests/support/served_loops.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ServedLoop, ARunThatWasInterruptedHasTheBitsOfOneThatWasNot) {
  const Dataset data = points(53).shuffle(53).batch(12);
  const Values alone = train_alone(data, 2);
  for (const bool in_parts : {false, true}) {
    TempDirectory directory;
    const std::string model_dir = directory / "model";
    const Tasks tasks{.servers = 2,
                      .servers_options = {.partitioner = plan::Partitioner::fixed(2)},
                      .scope = {.seed = 3, .model_dir = in_parts ? model_dir : ""}};
    // In the middle of the second pass.
    run_cluster(tasks, [&](const Task& task) {
      const Regression regression;
      const auto step = [&](const Features& x, const Labels& y) { regression.minimize(x, y); };
      if (task.scope.serve(step)) return;
      EXPECT_FALSE(task.scope.restore(model_dir));
      auto training = task.strategy->distribute(data);
      for (const auto& batch : training) task.strategy->run(step, batch);
      for (const auto& batch : training) {
        task.strategy->run(step, batch);
        if (task.scope.step() == 7) break;
      }
      task.scope.save(model_dir, {.notes = {{"passes", "1"}}});
    });
    run_cluster(tasks, [&](const Task& task) {
      const Regression regression;
      const auto step = [&](const Features& x, const Labels& y) { regression.minimize(x, y); };
      if (task.scope.serve(step)) return;
      EXPECT_TRUE(task.scope.restore(model_dir));
      EXPECT_EQ(task.scope.step(), 7);
      EXPECT_EQ(task.scope.restored_notes().at("passes"), "1");
      auto training = task.strategy->distribute(data);
      while (training.completed_passes() < 2) {
        for (const auto& batch : training) task.strategy->run(step, batch);
      }
      expect_same_bits(task.scope.state().tensors, alone);
    });
  }
}

TEST(ServedLoop, TheChiefSavesOnceMoreWhatTheOthersHaveMade) {
  TempDirectory directory;
  const std::string model_dir = directory / "model";
  std::atomic<bool> saved = false;
  run_cluster({.workers = 2, .scope = {.model_dir = model_dir}}, [&](const Task& task) {
    const Regression regression;
    if (regression.train(task, points(160).batch(8), 1, [&] {
          if (task.rank == 0 && task.scope.step() > 0) {
            task.scope.save(model_dir);
            saved = true;
          }
          // The worker is the last to end. Bounded by the deadline of run_ranks().
          while (task.rank == 1 && !saved) std::this_thread::yield();
        }))
      return;
  });
  const auto newest = CheckpointManager(model_dir).load_latest();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->checkpoint.global_step, 20);
}

// A run of a chief and a worker that was interrupted where the chief had made the ten steps of its
// pass, and the worker not all of its own: its checkpoint is in `middle`.
void interrupt_behind_the_chief(const std::string& middle) {
  const TempDirectory end;
  std::atomic<bool> saved = false;
  run_cluster({.workers = 2}, [&](const Task& task) {
    const Regression regression;
    const auto step = [&](const Features& x, const Labels& y) { regression.minimize(x, y); };
    if (task.scope.serve(step)) return;
    for (const auto& batch : task.strategy->distribute(points(160).batch(8))) {
      task.strategy->run(step, batch);
      while (task.rank == 1 && !saved) std::this_thread::yield();
    }
    if (task.rank != 0) return;
    task.scope.save(middle, {.notes = {{"by", "the chief"}}});
    task.scope.save(end / "end");  // once more when the others are through
    saved = true;
  });
}

// Goes on there. Returns how many steps the worker has made.
int64_t go_on(const std::string& middle, bool ends_training) {
  std::atomic<int64_t> made = 0;
  run_cluster({.workers = 2}, [&](const Task& task) {
    const Regression regression;
    if (task.scope.serve([&](const Features& x, const Labels& y) { regression.minimize(x, y); }))
      return;
    task.scope.restore(middle);
    auto training = task.strategy->distribute(points(160).batch(8));
    while (training.completed_passes() < 1) {
      for (const auto& batch : training) {
        // The chief reads its position, which has no batch after it.
        EXPECT_EQ(task.rank, 1);
        task.strategy->run([&](const Features& x, const Labels& y) { regression.minimize(x, y); },
                           batch);
        ++made;
      }
    }
    if (ends_training) task.scope.end_training();
  });
  return made;
}

// Without a thread the chief would wait for ever: for servers that write, or for its own file.
TEST(ServedLoop, TheChiefMakesStepsWhileACheckpointIsWritten) {
  const std::string dir = "mem://loops/held";
  const CheckpointManager checkpoints(dir);
  for (const bool parts : {true, false}) {
    muster::testing::HeldSave held(10);
    Values then;
    run_cluster({.servers = 2, .scope = {.model_dir = parts ? dir : ""}}, [&](const Task& task) {
      int64_t made = 0;
      (void)Regression().train(task, points(80).batch(8), 2, [&] {
        ++made;
        if (made == 10) then = task.scope.state().tensors;
        if (made % 5 != 0) return;
        if (made == 15) {
          EXPECT_EQ(checkpoints.latest(), dir + "/model.ckpt-5") << "nobody sees the next one";
          held.open();
        }
        EXPECT_EQ(task.scope.save(dir, {.asynchronous = made < 20}),
                  dir + "/model.ckpt-" + std::to_string(made));
      });
    });
    EXPECT_EQ(checkpoints.latest(), dir + "/model.ckpt-20");
    expect_same_bits(checkpoints.load(dir + "/model.ckpt-10").tensors, then);
  }
}

TEST(ServedLoop, AChiefBehindItsLastBatchBeginsTheRunForTheOthers) {
  TempDirectory directory;
  const std::string middle = directory / "middle";
  interrupt_behind_the_chief(middle);
  const int64_t saved = CheckpointManager(middle).load_latest()->checkpoint.global_step;
  EXPECT_EQ(go_on(middle, /*ends_training=*/true), 20 - saved);
  // What they have made is saved where the chief restored from, which has lost nothing.
  const CheckpointManager manager(middle);
  const auto newest = manager.load_latest();
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->checkpoint.global_step, 20);
  EXPECT_EQ(newest->checkpoint.notes.at("by"), "the chief");
  EXPECT_EQ(manager.all().size(), 2u);
  // It says that nobody has anything left: the end of the scope has nothing to call.
  EXPECT_EQ(go_on(middle, /*ends_training=*/false), 0);
  EXPECT_FALSE(take_late_error().has_value());
}

// There its function may not be called any more.
TEST(ServedLoop, AChiefBehindItsLastBatchThatOnlyLeavesSaysWhatIsNotTrainedOn) {
  TempDirectory directory;
  const std::string middle = directory / "middle";
  interrupt_behind_the_chief(middle);
  // The others learn it too.
  EXPECT_THAT(message_of([&] { (void)go_on(middle, /*ends_training=*/false); }),
              HasSubstr("was not used for training"));
  const auto error = take_late_error();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error->message(), AllOf(HasSubstr("restarted after its last batch"),
                                      HasSubstr("the data that worker 0 had left after step 1")));
  EXPECT_THAT(error->hint(),
              AllOf(HasSubstr("scope.end_training() after it"), HasSubstr("middle/model.ckpt-")));
}

TEST(ServedLoop, AChiefWithoutAnyBatchIsTold) {
  // The other worker learns of it at once, and may end first.
  std::string told;
  // Servers of a run that failed are gone for who comes later.
  std::latch here(2);
  EXPECT_THROW(run_cluster({.workers = 2},
                           [&](const Task& task) {
                             if (task.rank >= 0) here.arrive_and_wait();
                             const Regression regression;
                             (void)regression.train(task, points(160).batch(8).take(0), 1);
                             if (task.rank > 0) task.scope.end_training();
                             if (task.rank != 0) return;
                             told = message_of([&] { task.scope.end_training(); });
                             throw invalid_argument(told);
                           }),
               Error);
  EXPECT_THAT(told, HasSubstr("the chief's data gave no batch"));
}

TEST(ServedLoop, WhatIsDoneAlreadyIsNotDoneAgain) {
  TempDirectory directory;
  const std::string model_dir = directory / "model";
  for (const int64_t made : {20, 0}) {
    std::atomic<int64_t> steps = 0;
    run_cluster({.workers = 2, .servers = 2}, [&](const Task& task) {
      const Regression regression;
      const auto step = [&](const Features& x, const Labels& y) { regression.minimize(x, y); };
      if (task.scope.serve(step)) return;
      // Of a worker it says whether the others have made steps already.
      const bool found = task.scope.restore(model_dir);
      if (task.rank == 0 || made == 0) {
        EXPECT_EQ(found, made == 0);
      }
      auto training = task.strategy->distribute(points(160).batch(8));
      while (training.completed_passes() < 1) {
        for (const auto& batch : training) {
          task.strategy->run(step, batch);
          ++steps;
        }
      }
      task.scope.end_training();
      if (made > 0) task.scope.save(model_dir);
    });
    EXPECT_EQ(steps, made);
  }
}

TEST(ServedLoop, WeightsOfALoopInStepGoOnWithItsPlacesInTheData) {
  TempDirectory directory;
  const std::string model_dir = directory / "model";
  const Dataset data = points(53).shuffle(53).batch(12);
  {
    const auto strategy = one_device();
    const auto scope = strategy->scope(alone(3));
    const Regression regression;
    auto training = strategy->distribute(data);
    for (const auto& batch : training) {
      strategy->run([&](const Features& x, const Labels& y) { regression.minimize(x, y); }, batch);
      if (scope.step() == 3) break;
    }
    scope.save(model_dir);
  }
  const Values alone = train_alone(data, 2);
  run_cluster({.scope = {.seed = 3}}, [&](const Task& task) {
    if (task.rank >= 0) {
      EXPECT_TRUE(task.scope.restore(model_dir));
    }
    if (Regression().train(task, data)) return;
    expect_same_bits(task.scope.state().tensors, alone);
  });
}

TEST(ServedLoop, AnotherNumberOfWorkersIsToldThatPlacesAreNotKnown) {
  TempDirectory directory;
  const std::string model_dir = directory / "model";
  run_cluster({.workers = 2}, [&](const Task& task) {
    if (Regression().train(task, points(80).batch(8))) return;
    task.scope.end_training();
    task.scope.save(model_dir);
  });
  EXPECT_THAT(message_of([&] {
                run_cluster({}, [&](const Task& task) {
                  if (task.rank >= 0) task.scope.restore(model_dir);
                  (void)Regression().train(task, points(80).batch(8), 3);
                });
              }),
              HasSubstr("holds the positions of 2 workers"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
