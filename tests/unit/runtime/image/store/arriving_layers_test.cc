// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/arriving_layers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "runtime/image/content/digest.h"
#include "tests/support/eventually.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;

Digest Layer(char digit) { return *ParseDigest("sha256:" + std::string(64, digit)); }

class ArrivingLayersTest : public ::testing::Test {
 protected:
  static StagedImage ThreeLayers() {
    StagedImage image;
    image.layers = {Layer('1'), Layer('2'), Layer('3')};
    return image;
  }
  // Stages each layer as it comes; `at` fails, if any does.
  ArrivingLayers::Stage Staging(size_t at = 99) {
    return [this, at](const StagedImage& image, const ArrivingLayers::Next& next,
                      const Unpacker::Meanwhile& meanwhile) -> Result<void> {
      for (size_t layer = 0; layer < image.layers.size(); ++layer) {
        RETURN_IF_ERROR(next(layer));
        if (layer == at) return InvalidArgument("layer is damaged");
        coming_ = meanwhile.coming();
        ++staged_;
      }
      return {};
    };
  }
  static Result<void> Moved() { return {}; }

  std::atomic<size_t> staged_ = 0;
  std::atomic<uint64_t> coming_ = 0;
};

TEST_F(ArrivingLayersTest, EachWaitsForThoseBelowIt) {
  ArrivingLayers layers(Staging());
  ASSERT_TRUE(layers.Expect(ThreeLayers()));
  layers.SetComing(70);
  layers.Arrived(Layer('3'));
  layers.Arrived(Layer('2'));
  EXPECT_EQ(layers.At().value(), std::nullopt) << "the lowest is not there";
  EXPECT_EQ(staged_, 0u);
  layers.Arrived(Layer('1'));
  ASSERT_TRUE(layers.Finish(&Moved));
  EXPECT_EQ(staged_, 3u);
  EXPECT_EQ(coming_, 70u);
  EXPECT_EQ(layers.At().value(), 2u);
}

TEST_F(ArrivingLayersTest, AFailureIsToldWhileTheRestStillComes) {
  ArrivingLayers layers(Staging(1));
  ASSERT_TRUE(layers.Expect(ThreeLayers()));
  layers.Arrived(Layer('1'));
  layers.Arrived(Layer('2'));
  EXPECT_TRUE(Eventually([&] { return !layers.At(); }));
  EXPECT_EQ(layers.Finish(&Moved).error().message(), "layer is damaged");
}

TEST_F(ArrivingLayersTest, WhoeverWaitsMayGiveUp) {
  ArrivingLayers layers(Staging());
  ASSERT_TRUE(layers.Expect(ThreeLayers()));
  int asked = 0;
  const auto finished = layers.Finish(
      [&]() -> Result<void> { return ++asked < 3 ? Result<void>() : Unavailable("gave up"); });
  EXPECT_EQ(finished.error().message(), "gave up");
  EXPECT_EQ(staged_, 0u);
}

TEST_F(ArrivingLayersTest, AnEndDoesNotWaitForWhatDoesNotCome) {
  std::atomic<bool> given_up = false;
  {
    ArrivingLayers layers([&](const StagedImage&, const ArrivingLayers::Next& next,
                              const Unpacker::Meanwhile& meanwhile) {
      auto waited = next(0);
      given_up = meanwhile.stop();
      return waited;
    });
    ASSERT_TRUE(layers.Expect(ThreeLayers()));
  }
  EXPECT_TRUE(given_up);
}

}  // namespace
}  // namespace holdfast::runtime
