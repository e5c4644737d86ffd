// SPDX-License-Identifier: Apache-2.0
// Packets, records, options, keys.
#include "runtime/keeper/common/wire.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/records.h"
#include "runtime/keeper/hold/systemd.h"
#include "runtime/keeper/process/options.h"

namespace holdfast::runtime::keeper {
namespace {

Result<Message> Receive(const std::string& bytes) {
  auto pair = sys::SeqpacketPair();
  EXPECT_TRUE(sys::SendPacket(pair->first.get(), bytes));
  return ReceiveMessage(pair->second.get());
}

TEST(WireTest, RefusesWhatIsNoPacketOfOurs) {
  std::string good("\x48\x46\x4b\x50\x01\x00\x0a\x00\x02\x00\x00\x00hi", 14);
  auto message = Receive(good);
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->type, MessageType::kPing);
  EXPECT_EQ(message->payload, "hi");
  EXPECT_EQ(Receive("x").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Receive(good + "!").error().code(), Code::kInvalidArgument);
  std::string other_magic = good;
  other_magic[0] = 'X';
  EXPECT_EQ(Receive(other_magic).error().code(), Code::kInvalidArgument);
  std::string other_version = good;
  other_version[4] = 9;
  auto refused = Receive(other_version);
  EXPECT_EQ(refused.error().code(), Code::kUnsupported);
  EXPECT_NE(refused.error().message().find("version 9"), std::string::npos);
}

TEST(WireTest, ACutOffPayloadIsNoticedAtEveryLength) {
  StartRecord start;
  start.id = "abc";
  start.tag = "some bytes";
  const std::string payload = EncodeLaunch(start);
  EXPECT_TRUE(DecodeLaunch(payload));
  for (size_t n = 0; n < payload.size(); ++n) {
    EXPECT_FALSE(DecodeLaunch(payload.substr(0, n))) << n;
  }
  EXPECT_FALSE(DecodeLaunch(payload + "x"));
}

TEST(WireTest, ErrorsKeepTheirCodeAndText) {
  const Error error = DecodeError(EncodeError(NotFound("get x: not kept here")));
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_EQ(error.message(), "get x: not kept here");
}

TEST(RecordsTest, SurviveTheWayToTheFileAndBack) {
  std::string pattern = testing::TempDir() + "holdfast-records-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  auto records = Records::Open(pattern);
  ASSERT_TRUE(records) << records.error().message();
  const StartRecord start{"c1", ProcessKind::kExec, 3, 42, 7, {}, 11, 12, std::string("a\0b", 3)};
  ASSERT_TRUE(records->WriteStart(start));
  EXPECT_EQ(*records->ReadStart("c1"), start);
  ExitRecord exit{"c1", 42, 7, {model::ExitReport::Source::kWaited, 137, 9, false, {}}};
  ASSERT_TRUE(records->WriteExit(exit));
  ExitRecord later = exit;
  later.report.exit_code = 0;
  ASSERT_TRUE(records->WriteExit(later));
  EXPECT_EQ(*records->ReadExit("c1"), exit) << "the first one stays";
  later.start_ticks = 8;
  ASSERT_TRUE(records->WriteExit(later));
  EXPECT_EQ(*records->ReadExit("c1"), later) << "another process of the same id replaces it";
  EXPECT_FALSE(*records->ReadStart("c2"));
  EXPECT_FALSE(records->ReadStart("../c1"));
  std::filesystem::remove_all(pattern);
}

TEST(PathsTest, IdsAndGenerations) {
  EXPECT_TRUE(IsValidId("a.B-9_"));
  for (const char* bad : {"", ".", ".a", "a/b", "a b"}) EXPECT_FALSE(IsValidId(bad)) << bad;
  EXPECT_FALSE(IsValidId(std::string(129, 'a')));
  EXPECT_EQ(GenerationOfSocketName(LauncherSocketName(12)), 12u);
  EXPECT_EQ(GenerationOfRetired(RetiredSocketName(12)), 12u);
  EXPECT_EQ(GenerationOfSocketName(RetiredSocketName(12)), 0u) << "clients do not find it";
  EXPECT_EQ(GenerationOfRetired(LauncherSocketName(12)), 0u);
  for (const char* other : {"launch..sock", "launch.x.sock", "log.sock", "launch.1.sock.old"}) {
    EXPECT_EQ(GenerationOfSocketName(other), 0u) << other;
  }
}

TEST(KeysTest, LogKeysAreReadBack) {
  for (const LogPart part :
       {LogPart::kStdout, LogPart::kStderr, LogPart::kTerminal, LogPart::kRelay}) {
    const auto key = ParseLogKey(MakeLogKey("a.b", part));
    EXPECT_EQ(key, (LogKey{"a.b", part}));
  }
  EXPECT_EQ(MakeLogKey("c1", LogPart::kStderr), "log.c1.2");
  for (const char* bad : {"log.", "log.1", "log.x", "log.x.3", "log..1", "ns.x.1"}) {
    EXPECT_FALSE(ParseLogKey(bad)) << bad;
  }
  EXPECT_TRUE(IsMirrored("log.c1.tty") && IsMirrored("stdin.c1") && IsMirrored("ns.u.1.net"));
  EXPECT_FALSE(IsMirrored("log.c1.1") || IsMirrored("pid.c1"));
}

TEST(KeysTest, SandboxKeysAreReadBack) {
  for (const SandboxName& sandbox : {PodSandbox(PodUid("a.b")), PoolMember("a.b")}) {
    const auto key = ParseSandboxKey(MakeSandboxKey({sandbox, 4, "net"}));
    ASSERT_TRUE(key);
    EXPECT_EQ(key->sandbox, sandbox);
    EXPECT_EQ(key->total, 4u);
    EXPECT_EQ(key->name, "net");
  }
  EXPECT_EQ(MakeSandboxKey({PodSandbox(PodUid("u")), 4, "net"}), "ns.u.4.net");
  EXPECT_EQ(MakeSandboxKey({PoolMember("m"), 4, "net"}), "pool.m.4.net");
  for (const char* bad :
       {"ns.", "ns.x", "ns.x.net", "ns.x.y.net", "log.x.1.net", "pool", "pool.x.net"}) {
    EXPECT_FALSE(ParseSandboxKey(bad)) << bad;
  }
  for (const char* own : {"ns.u.4.net", "pool.m.4.net"}) {
    EXPECT_TRUE(IsKeepersOwn(own)) << own;
    EXPECT_TRUE(IsMirrored(own)) << own;
  }
}

TEST(OptionsTest, RefusesWhatItDoesNotKnow) {
  const auto parse = [](std::vector<std::string> args) {
    args.insert(args.begin(), "holdfast-keeper");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    return ParseOptions(static_cast<int>(argv.size()), argv.data());
  };
  auto good = parse({"launch", "--run-dir=/r", "--visible=/a", "--visible=/b", "--generation=3"});
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_EQ(good->visible.size(), 2u);
  const auto again = good->ToArguments();
  EXPECT_TRUE(parse({again.begin() + 1, again.end()}));
  EXPECT_FALSE(parse({}));
  EXPECT_FALSE(parse({"hold"}));
  EXPECT_FALSE(parse({"serve", "--run-dir=/r"}));
  EXPECT_FALSE(parse({"hold", "--run-dir=r"}));
  EXPECT_FALSE(parse({"hold", "--run-dir=/r", "--colour=red"}));
  EXPECT_FALSE(parse({"launch", "--run-dir=/r"}));
  EXPECT_FALSE(parse({"launch", "--run-dir=/r", "--generation=x"}));
}

// A service manager's side of sd_notify: an abstract datagram socket.
TEST(SystemdTest, StoresAndRemovesDescriptorsByName) {
  const std::string name = StrCat("holdfast-test-", ::getpid());
  UniqueFd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ::setenv("NOTIFY_SOCKET", ("@" + name).c_str(), 1);
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  const Notifier notifier = Notifier::FromEnvironment();
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr) << "not for the children";
  EXPECT_EQ(notifier.watchdog_period(), std::chrono::seconds(15));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  notifier.StoreFds("log.x.1", std::vector<int>{null.get()});
  auto packet = sys::ReceivePacket(manager.get());
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->data, "FDSTORE=1\nFDPOLL=0\nFDNAME=log.x.1\n");
  EXPECT_EQ(packet->fds.size(), 1u);
  notifier.RemoveFds("log.x.1");
  EXPECT_EQ(sys::ReceivePacket(manager.get())->data, "FDSTOREREMOVE=1\nFDNAME=log.x.1\n");
  notifier.Ready("here");
  EXPECT_EQ(sys::ReceivePacket(manager.get())->data, "READY=1\nSTATUS=here\n");
}

}  // namespace
}  // namespace holdfast::runtime::keeper
