// SPDX-License-Identifier: Apache-2.0
// In which order a keeper process hears what several others say.
#include "runtime/keeper/process/server.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/socket.h"

namespace holdfast::runtime::keeper {
namespace {

class PacketServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    auto loop = Loop::Create();
    ASSERT_TRUE(loop);
    loop_ = std::make_unique<Loop>(std::move(*loop));
    auto listener = sys::ListenSeqpacket(StrCat(directory_, "/socket"), 0600);
    ASSERT_TRUE(listener);
    server_ = std::make_unique<PacketServer>(
        *loop_, std::move(*listener), [this](PacketServer::ConnectionId id, Message message) {
          heard_.push_back(Decoder(message.payload).Text());
          if (!IsQuiet(message.type)) server_->Reply(id, MessageType::kOk);
        });
    ASSERT_TRUE(server_->Start());
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  UniqueFd Connect() const {
    auto socket = sys::ConnectSeqpacket(StrCat(directory_, "/socket"));
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }
  static void Say(const UniqueFd& socket, MessageType type, const std::string& text) {
    ASSERT_TRUE(SendMessage(socket.get(), type, Encoder().Text(text).Take()));
  }
  void HearAll() {
    for (int turns = 0; turns < 10; ++turns) {
      ASSERT_TRUE(loop_->RunOnce(std::chrono::milliseconds(0)));
    }
  }

  std::string directory_ = "/tmp/holdfast-server-XXXXXX";
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<PacketServer> server_;
  std::vector<std::string> heard_;
};

using Texts = std::vector<std::string>;

// As when the launcher has given a sandbox away and its client has it dropped.
TEST_F(PacketServerTest, WhatWasSaidBeforeARequestIsHeardBeforeIt) {
  const UniqueFd client = Connect();
  const UniqueFd launcher = Connect();
  HearAll();
  for (const char* key : {"net", "ipc", "uts"}) Say(launcher, MessageType::kPutQuiet, key);
  Say(client, MessageType::kDropPrefix, "drop");
  HearAll();
  EXPECT_EQ(heard_, (Texts{"net", "ipc", "uts", "drop"}));
}

TEST_F(PacketServerTest, OnAConnectionThatWasNotAcceptedYetToo) {
  const UniqueFd client = Connect();
  HearAll();
  const UniqueFd launcher = Connect();
  Say(launcher, MessageType::kReady, "ready");
  Say(launcher, MessageType::kPutQuiet, "net");
  Say(client, MessageType::kDropPrefix, "drop");
  HearAll();
  EXPECT_EQ(heard_, (Texts{"ready", "net", "drop"}));
}

TEST_F(PacketServerTest, OfOneThatHasEndedToo) {
  const UniqueFd client = Connect();
  UniqueFd launcher = Connect();
  HearAll();
  for (const char* key : {"net", "ipc"}) Say(launcher, MessageType::kPutQuiet, key);
  launcher.Reset();
  Say(client, MessageType::kDropPrefix, "drop");
  HearAll();
  EXPECT_EQ(heard_, (Texts{"net", "ipc", "drop"}));
}

TEST_F(PacketServerTest, EachConnectionKeepsItsOrder) {
  const UniqueFd one = Connect();
  const UniqueFd other = Connect();
  HearAll();
  Say(one, MessageType::kPutQuiet, "1");
  Say(one, MessageType::kGet, "2");
  Say(one, MessageType::kDropQuiet, "3");
  Say(other, MessageType::kGet, "a");
  Say(other, MessageType::kPutQuiet, "b");
  HearAll();
  Texts ones;
  Texts others;
  for (const std::string& text : heard_) (text < "a" ? ones : others).push_back(text);
  EXPECT_EQ(ones, (Texts{"1", "2", "3"}));
  EXPECT_EQ(others, (Texts{"a", "b"}));
}

}  // namespace
}  // namespace holdfast::runtime::keeper
