// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/places.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::agent::api {
namespace {

using std::chrono::seconds;

constexpr ConnectionLimits kThreeAndTwo{.per_uid = 3, .reserve = 2};
const Occupant::Time kNow{seconds(1000)};

Occupant Working(uint64_t id, seconds there, pid_t process = 7) {
  return {id, process, false, true, kNow - there, kNow};
}
Occupant Unused(uint64_t id, seconds since, bool ever_called = true) {
  return {id, 7, true, ever_called, kNow - seconds(100), kNow - since};
}

// "-" when there is a place, else who leaves; what the next is told when it cannot come.
std::string Room(std::vector<Occupant> occupants, const ConnectionLimits& limits = kThreeAndTwo) {
  const auto room = MakeRoom(1000, std::move(occupants), limits, kNow);
  if (!room) return room.error().message();
  return *room ? std::to_string((*room)->id) : "-";
}

TEST(PlacesTest, BelowTheLimitNobodyLeaves) {
  EXPECT_EQ(Room({}), "-");
  EXPECT_EQ(Room({Unused(1, seconds(9)), Unused(2, seconds(9))}), "-");
}

TEST(PlacesTest, AtItTheLongestUnusedLeavesAndBeforeItWhoNeverCalled) {
  EXPECT_EQ(Room({Working(1, seconds(99)), Unused(2, seconds(5)), Unused(3, seconds(8))}), "3");
  EXPECT_EQ(Room({Unused(1, seconds(9)), Unused(2, seconds(1), false), Unused(3, seconds(8))}),
            "2");
}

TEST(PlacesTest, WhereAllWorkTheReserveIsOpen) {
  std::vector<Occupant> all = {Working(1, seconds(9)), Working(2, seconds(9)),
                               Working(3, seconds(9))};
  EXPECT_EQ(Room(all), "-");
  all.push_back(Working(4, seconds(9)));
  EXPECT_EQ(Room(all), "-");
  all.insert(all.begin(), Working(5, seconds(1)));
  EXPECT_EQ(Room(all), "4") << "the first of the reserve, in whatever order they come";
  const auto told = MakeRoom(1000, all, kThreeAndTwo, kNow);
  EXPECT_EQ(
      (*told)->text,
      "too many connections of uid 1000, limit 3; all have calls at work, 5 of them are of "
      "process 7: end some. This connection was beyond the limit and makes room for the next");
}

TEST(PlacesTest, WhoHasOnlyJustComeIsLeftAlone) {
  const std::vector<Occupant> all = {Working(1, seconds(9), 8), Working(2, seconds(9)),
                                     Working(3, seconds(9)), Working(4, seconds(1)),
                                     Working(5, seconds(1))};
  EXPECT_EQ(Room(all),
            "too many connections of uid 1000, limit 3; all have calls at work, 4 of them are of "
            "process 7: end some");
}

TEST(PlacesTest, WithoutAReserveTheNextIsRefused) {
  const ConnectionLimits limits{.per_uid = 1, .reserve = 0};
  EXPECT_EQ(Room({Working(1, seconds(9))}, limits).substr(0, 48),
            "too many connections of uid 1000, limit 1; all h");
}

}  // namespace
}  // namespace holdfast::agent::api
