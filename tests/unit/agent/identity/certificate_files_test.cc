// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/identity/certificate_plan.h"
#include "tests/unit/agent/identity/signer.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::UnorderedElementsAre;

class CertificateFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::temp_directory_path() / "certificates-XXXXXX";
    ASSERT_NE(::mkdtemp(top_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(top_); }

  static CertificatePair NewPair() {
    const auto key = NewPrivateKey();
    const auto request = MakeCertificateRequest(*key, ClientPlan("n1").subject);
    return {test::Signer().Sign(*request, {seconds(1)}, {seconds(2)}), *key};
  }
  CertificateFiles Open() {
    auto files = CertificateFiles::Open(top_ + "/pki", "kubelet-client");
    EXPECT_TRUE(files) << files.error().message();
    return std::move(*files);
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(top_ + "/pki")) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  mode_t ModeOf(const std::string& name) {
    struct stat stat{};
    EXPECT_EQ(::stat((top_ + "/" + name).c_str(), &stat), 0);
    return stat.st_mode & 07777;
  }

  std::string top_;
};

TEST_F(CertificateFilesTest, AsAKubeletLaysThemOut) {
  const auto files = Open();
  EXPECT_EQ(ModeOf("pki"), 0700u);
  ASSERT_TRUE(files.Current());
  EXPECT_FALSE(*files.Current());
  const CertificatePair first = NewPair();
  ASSERT_TRUE(files.Keep(first, {seconds(1'795'453'445)}));
  EXPECT_THAT(Names(), UnorderedElementsAre("kubelet-client-2026-11-23-17-04-05.pem",
                                            "kubelet-client-current.pem"));
  EXPECT_EQ(fs::read_symlink(files.current_path()), "kubelet-client-2026-11-23-17-04-05.pem");
  EXPECT_EQ(ModeOf("pki/kubelet-client-current.pem"), 0600u);
  EXPECT_EQ(**files.Current(), first);
}

TEST_F(CertificateFilesTest, ANewOneTakesTheLinkOverAndTheLastStays) {
  const auto files = Open();
  CertificatePair newest;
  for (int i = 0; i < 4; ++i) {
    newest = NewPair();
    ASSERT_TRUE(files.Keep(newest, {seconds(1'795'453'445 + i)}));
  }
  EXPECT_EQ(**files.Current(), newest);
  EXPECT_THAT(Names(), UnorderedElementsAre("kubelet-client-2026-11-23-17-04-07.pem",
                                            "kubelet-client-2026-11-23-17-04-08.pem",
                                            "kubelet-client-current.pem"));
}

TEST_F(CertificateFilesTest, WhatAKilledWriterLeftIsNoObstacle) {
  const auto files = Open();
  fs::create_symlink("nowhere", top_ + "/pki/kubelet-client-updated.pem");
  const CertificatePair pair = NewPair();
  ASSERT_TRUE(files.Keep(pair, {seconds(1'795'453'445)}));
  EXPECT_EQ(**Open().Current(), pair);
}

TEST_F(CertificateFilesTest, HalfAPairIsAnError) {
  const auto files = Open();
  std::ofstream(files.current_path()) << NewPair().chain_pem;
  const auto current = files.Current();
  ASSERT_FALSE(current);
  EXPECT_NE(current.error().message().find(files.current_path()), std::string::npos);
  std::ofstream(files.current_path()) << NewPair().chain_pem << NewPair().key_pem;
  EXPECT_FALSE(files.Current()) << "of two pairs";
}

TEST_F(CertificateFilesTest, KeysThatAreUnderWay) {
  const auto files = Open();
  EXPECT_FALSE(*files.PendingKey(""));
  ASSERT_TRUE(files.SavePendingKey("", "first"));
  ASSERT_TRUE(files.SavePendingKey("-renewal", "second"));
  EXPECT_EQ(ModeOf("pki/kubelet-client.key.tmp"), 0600u);
  EXPECT_EQ(**Open().PendingKey(""), "first");
  EXPECT_EQ(**Open().PendingKey("-renewal"), "second");
  ASSERT_TRUE(files.RemovePendingKey(""));
  EXPECT_FALSE(*files.PendingKey(""));
  ASSERT_TRUE(files.RemovePendingKey("")) << "gone is gone";
}

TEST_F(CertificateFilesTest, AKeyThatHasItsCertificateIsNoLongerUnderWay) {
  const auto files = Open();
  const CertificatePair current = NewPair();
  const CertificatePair other = NewPair();
  ASSERT_TRUE(files.Keep(current, WallTime{seconds(1)}));
  ASSERT_TRUE(files.SavePendingKey("-bootstrap", current.key_pem));
  ASSERT_TRUE(files.SavePendingKey("", other.key_pem));
  ASSERT_TRUE(files.SavePendingKey("-spoilt", "no key"));
  ASSERT_TRUE(files.RemoveUsedKeys(current));
  EXPECT_FALSE(*files.PendingKey("-bootstrap"));
  EXPECT_EQ(**files.PendingKey(""), other.key_pem);
  EXPECT_TRUE(*files.PendingKey("-spoilt"));
  EXPECT_TRUE(*files.Current());
}

}  // namespace
}  // namespace holdfast::agent
