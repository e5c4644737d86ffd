// SPDX-License-Identifier: Apache-2.0
// Handlers as checks: ports, hosts, headers, commands.
#include "agent/probe/resolve.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "agent/probe/redirect.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr char kContainer[] = R"(name: "web" ports { name: "http" containerPort: 8080 }
    env { name: "A" value: "1" } env { name: "B" valueFrom { fieldRef { fieldPath: "x" } } })";

template <class Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

Result<Check> Probe(const std::string& handler) {
  return ResolveProbe(Parse<corev1::ProbeHandler>(handler), Parse<corev1::Container>(kContainer),
                      ContainerId("c1"), "10.0.0.2");
}

// "http://host:port/path Host=… Name=value …", or the error.
std::string Http(const std::string& action) {
  const auto check = Probe("httpGet { " + action + " }");
  if (!check) return check.error().message();
  const auto& http = std::get<HttpCheck>(*check);
  std::string out = UrlOf(http);
  if (!http.authority.empty()) out += " Host=" + http.authority;
  for (const auto& [name, value] : http.headers) out += " " + name + "=" + value;
  return out;
}

TEST(ResolveTest, HttpGet) {
  const std::string ours = " User-Agent=kube-probe/1.36 Accept=*/*";
  const struct {
    const char* action;
    std::string check;
  } cases[] = {
      {R"(path: "/" port { intVal: 80 } scheme: "HTTP")", "http://10.0.0.2:80/" + ours},
      {R"(path: "/x?a=b" port { type: 1 strVal: "http" } scheme: "HTTPS")",
       "https://10.0.0.2:8080/x?a=b" + ours},
      {R"(path: "healthz" port { type: 1 strVal: "81" } host: "fd00::1")",
       "http://[fd00::1]:81/healthz" + ours},
      {R"(path: "/a b\r\nX: y#z" port { intVal: 80 })",
       "http://10.0.0.2:80/a%20b%0D%0AX:%20y" + ours},
      {R"(path: "/" port { type: 1 strVal: "nope" })", "port nope not found"},
      {R"(path: "/" port { intVal: 0 })", "invalid port number: 0"},
      {R"(path: "/" port { type: 1 strVal: "70000" })", "invalid port number: 70000"},
      {R"(path: "/" port { intVal: 80 } httpHeaders { name: "host" value: "a.test" }
          httpHeaders { name: "user-agent" value: "me" } httpHeaders { name: "Accept" value: "" }
          httpHeaders { name: "X" value: "1" } httpHeaders { name: "X" value: "2" })",
       "http://10.0.0.2:80/ Host=a.test user-agent=me X=1 X=2"},
  };
  for (const auto& c : cases) EXPECT_EQ(Http(c.action), c.check) << c.action;
}

TEST(ResolveTest, TheOtherHandlers) {
  EXPECT_EQ(std::get<ExecCheck>(
                *Probe(R"p(exec { command: "a$(A)" command: "$(B)" command: "$$(A)" })p")),
            (ExecCheck{ContainerId("c1"), {"a1", "$(B)", "$(A)"}}));
  EXPECT_EQ(std::get<TcpCheck>(*Probe(R"(tcpSocket { port { type: 1 strVal: "http" } })")),
            (TcpCheck{"10.0.0.2", 8080}));
  EXPECT_EQ(std::get<TcpCheck>(*Probe(R"(tcpSocket { port { intVal: 2379 } host: "127.0.0.1" })")),
            (TcpCheck{"127.0.0.1", 2379}));
  EXPECT_EQ(std::get<GrpcCheck>(*Probe(R"(grpc { port: 9000 service: "s" })")),
            (GrpcCheck{"10.0.0.2", 9000, "s"}));
  EXPECT_EQ(Probe("").error().message(), "missing probe handler for web");
}

Result<Check> Hook(const std::string& handler, const std::string& ip) {
  return ResolveHook(Parse<corev1::LifecycleHandler>(handler), Parse<corev1::Container>(kContainer),
                     ContainerId("c1"), ip);
}

TEST(ResolveTest, Hooks) {
  const auto http =
      std::get<HttpCheck>(*Hook(R"(httpGet { path: "/" port { intVal: 80 } })", "10.0.0.2"));
  EXPECT_TRUE(http.any_status);
  EXPECT_EQ(http.headers.front().second, "kube-lifecycle/1.36");
  EXPECT_EQ(std::get<SleepCheck>(*Hook("sleep { seconds: 0 }", "")).time.count(), 0);
  EXPECT_EQ(Hook("tcpSocket { port { intVal: 80 } }", "10.0.0.2").error().message(),
            "invalid handler");
  EXPECT_EQ(Hook(R"(httpGet { path: "/" port { intVal: 80 } })", "").error().message(),
            "failed to find networking container");
}

TEST(RedirectTest, OnlyToTheSameHost) {
  const HttpCheck first{
      .host = "10.0.0.2", .port = 8080, .path = "/a/b?q=1", .authority = "v.test"};
  const struct {
    const char* location;
    const char* url;  // "": not followed
    const char* authority;
  } cases[] = {
      {"/x", "http://10.0.0.2:8080/x", "v.test"},
      {"c", "http://10.0.0.2:8080/a/c", "v.test"},
      {"?z", "http://10.0.0.2:8080/a/b?z", "v.test"},
      {"http://10.0.0.2/y#f", "http://10.0.0.2:80/y", "10.0.0.2"},
      {"https://10.0.0.2", "https://10.0.0.2:443/", "10.0.0.2"},
      {"//10.0.0.2:81?q", "http://10.0.0.2:81/?q", "10.0.0.2:81"},
      // What Go 1.26's net/url says to the same.
      {"#f", "http://10.0.0.2:8080/a/b?q=1", "v.test"},
      {"?", "http://10.0.0.2:8080/a/b?", "v.test"},
      {"..", "http://10.0.0.2:8080/", "v.test"},
      {"../../x", "http://10.0.0.2:8080/x", "v.test"},
      {"/p/./q/../r/..", "http://10.0.0.2:8080/p/", "v.test"},
      {"/a//../b", "http://10.0.0.2:8080/a/b", "v.test"},
      {"d/.", "http://10.0.0.2:8080/a/d/", "v.test"},
      {"./a:b", "http://10.0.0.2:8080/a/a:b", "v.test"},
      {"c?x=/../y", "http://10.0.0.2:8080/a/c?x=/../y", "v.test"},
      {"HTTP://10.0.0.2/a/../b", "http://10.0.0.2:80/b", "10.0.0.2"},
      {"//u:p@10.0.0.2:81/x", "http://10.0.0.2:81/x", "10.0.0.2:81"},
      {"//10.0.0.2:/x", "http://10.0.0.2:80/x", "10.0.0.2"},
      {"ftp://10.0.0.2/x", "", ""},
      {"a:b", "", ""},
      {":b", "", ""},
      {"http://10.0.0.3/", "", ""},
      {"http://10.0.0.2@evil.test/", "", ""},
      {"http://10.0.0.2:0/", "", ""},
      {"http://10.0.0.2:99999/", "", ""},
      {"http:opaque", "", ""},
      {"http://", "", ""},
      {"/x\r\nSet: y", "", ""},
      {"", "", ""},
  };
  for (const auto& c : cases) {
    const auto next = FollowRedirect(first, first, c.location);
    EXPECT_EQ(next ? UrlOf(*next) : "", c.url) << c.location;
    EXPECT_EQ(next ? AuthorityOf(*next) : "", c.authority) << c.location;
  }
  EXPECT_FALSE(FollowRedirect(first, first, std::string(10'000, 'x')));
  const HttpCheck other{.host = "fd00::1", .port = 80, .authority = ""};
  EXPECT_TRUE(FollowRedirect(other, other, "//[fd00::1]:81/"));
  EXPECT_FALSE(FollowRedirect(other, other, "//[fd00::1]x81/"));
}

}  // namespace
}  // namespace holdfast::agent
