#include "lib/core/terminal/task_progress.h"

#include <catch2/catch.hpp>
#include <thread>

using namespace comera;

TEST_CASE("task: running tasks are listed in order with their current progress") {
  CHECK(tasks_at_hand().empty());
  {
    TaskProgress outer("outer", 10, TaskUnit::bytes);
    TaskProgress inner("inner");
    outer.done(3);
    inner.advance();
    inner.advance(4);
    inner.tell("note", 2.5);
    std::vector<TaskView> seen;
    std::thread([&] { seen = tasks_at_hand(); }).join();
    REQUIRE(seen.size() == 2);
    CHECK(seen[0].what == "outer");
    CHECK(seen[0].unit == TaskUnit::bytes);
    CHECK(seen[0].done == 3);
    CHECK(seen[0].of == 10);
    CHECK_FALSE(seen[0].seconds_left);
    CHECK(seen[1].what == "inner");
    CHECK(seen[1].done == 5);
    CHECK(seen[1].note == "note");
    CHECK(seen[1].seconds_left == 2.5);
    CHECK(seen[0].number != seen[1].number);
  }
  CHECK(tasks_at_hand().empty());
}
