// SPDX-License-Identifier: Apache-2.0
#include "tests/kube/validation/kit/values.h"

#include <string_view>

#include "agent/kube/schema.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::FieldDescriptor;

constexpr std::string_view kNames[] = {"web",
                                       "Web",
                                       "-web",
                                       "web-",
                                       "w_b",
                                       "a.b",
                                       ".a",
                                       "a.",
                                       "a..b",
                                       "a/b",
                                       "a/b/c",
                                       "/b",
                                       "a/",
                                       "example.com/name",
                                       "Example.com/name",
                                       "kubernetes.io/name",
                                       "node.kubernetes.io/x",
                                       "9",
                                       "123",
                                       "a b",
                                       " a",
                                       "a ",
                                       "é",
                                       "a\nb",
                                       "..",
                                       ".",
                                       "..a",
                                       "*",
                                       "%",
                                       "$(NAME)",
                                       "_",
                                       "A",
                                       "a=b",
                                       "metadata.name",
                                       "requests.example.com/x",
                                       "x.kubernetes.io/y",
                                       "a--b",
                                       "hugepages-2Mi",
                                       "hugepages-",
                                       "hugepages-x",
                                       "cpu",
                                       "memory",
                                       "storage",
                                       "ephemeral-storage",
                                       "pods",
                                       "attachable-volumes-x",
                                       "kubernetes.io/batch-cpu",
                                       "c",
                                       "web-1",
                                       "http",
                                       "default",
                                       "kube-system",
                                       "scratch",
                                       "claim",
                                       "empty",
                                       "ephemeral",
                                       "gpu",
                                       "own",
                                       "system-node-critical",
                                       "system-cluster-critical",
                                       "node",
                                       "0",
                                       "-1",
                                       "true",
                                       "null",
                                       "1.5"};

constexpr std::string_view kWords[] = {"Always",
                                       "Never",
                                       "OnFailure",
                                       "IfNotPresent",
                                       "None",
                                       "Default",
                                       "ClusterFirst",
                                       "ClusterFirstWithHostNet",
                                       "TCP",
                                       "UDP",
                                       "SCTP",
                                       "tcp",
                                       "HTTP",
                                       "HTTPS",
                                       "File",
                                       "FallbackToLogsOnError",
                                       "Memory",
                                       "HugePages",
                                       "HugePages-2Mi",
                                       "HugePages-x",
                                       "Directory",
                                       "DirectoryOrCreate",
                                       "Socket",
                                       "Exists",
                                       "DoesNotExist",
                                       "Equal",
                                       "In",
                                       "NotIn",
                                       "Gt",
                                       "Lt",
                                       "NoSchedule",
                                       "PreferNoSchedule",
                                       "NoExecute",
                                       "DoNotSchedule",
                                       "ScheduleAnyway",
                                       "Honor",
                                       "Ignore",
                                       "PreemptLowerPriority",
                                       "ClusterIP",
                                       "NodePort",
                                       "LoadBalancer",
                                       "ExternalName",
                                       "ClientIP",
                                       "Cluster",
                                       "Local",
                                       "IPv4",
                                       "IPv6",
                                       "SingleStack",
                                       "PreferDualStack",
                                       "RequireDualStack",
                                       "PreferClose",
                                       "PreferSameZone",
                                       "PreferSameNode",
                                       "Filesystem",
                                       "Block",
                                       "ReadWriteOnce",
                                       "ReadOnlyMany",
                                       "ReadWriteMany",
                                       "ReadWriteOncePod",
                                       "Localhost",
                                       "RuntimeDefault",
                                       "Unconfined",
                                       "Unmasked",
                                       "Bidirectional",
                                       "HostToContainer",
                                       "Enabled",
                                       "Disabled",
                                       "IfPossible",
                                       "Restart",
                                       "RestartAllContainers",
                                       "RestartContainer",
                                       "NotRequired",
                                       "OnRootMismatch",
                                       "Merge",
                                       "Strict",
                                       "MountOption",
                                       "Recursive",
                                       "SIGTERM",
                                       "SIGRTMIN+15",
                                       "SIGRTMIN+16",
                                       "SIGRTMAX-14",
                                       "SIGRTMAX-0",
                                       "linux",
                                       "windows",
                                       "plan9",
                                       "RSA3072",
                                       "ED25519",
                                       "Apply",
                                       "Update",
                                       "FieldsV1",
                                       "VIP",
                                       "Proxy",
                                       "ALL",
                                       "SYS_ADMIN",
                                       "CAP_SYS_ADMIN",
                                       "Shared",
                                       "Dedicated",
                                       "Managed",
                                       "ReadOnly",
                                       "ReadWrite"};

constexpr std::string_view kPaths[] = {"/",
                                       "/a",
                                       "a",
                                       "a/b",
                                       "a/../b",
                                       "../a",
                                       "a/..",
                                       "..data",
                                       "..",
                                       "...",
                                       "/dev/x",
                                       "a/",
                                       "//a",
                                       "./a",
                                       "a/./b",
                                       "C:\\a",
                                       "/scratch",
                                       "/host",
                                       "a:b",
                                       "/a:b",
                                       "metadata.labels",
                                       "metadata.labels['a']",
                                       "metadata.labels['-']",
                                       "metadata.labels['A/b/c']",
                                       "metadata.annotations['A b']",
                                       "metadata.annotations['Example.com/x']",
                                       "metadata.uid",
                                       "metadata.namespace",
                                       "metadata.annotations",
                                       "spec.nodeName",
                                       "spec.hostname",
                                       "status.podIP",
                                       "status.podIPs",
                                       "status.hostIP",
                                       "status.phase",
                                       "spec['a']",
                                       "metadata.name['a']",
                                       "limits.cpu",
                                       "limits.memory",
                                       "requests.ephemeral-storage",
                                       "requests.hugepages-2Mi",
                                       "limits.hugepages-",
                                       "limits.pods",
                                       "iqn.2001-04.com.example:x",
                                       "iqn.x",
                                       "eui.02004567A425678D",
                                       "eui.x",
                                       "naa.52004567BA64678D",
                                       "naa.x",
                                       "iscsi"};

constexpr std::string_view kAddresses[] = {"10.0.0.1",
                                           "010.0.0.1",
                                           "10.0.0",
                                           "10.0.0.256",
                                           "0.0.0.0",
                                           "127.0.0.1",
                                           "169.254.1.1",
                                           "224.0.0.1",
                                           "255.255.255.255",
                                           "::",
                                           "::1",
                                           "fe80::1",
                                           "fe80::1%eth0",
                                           "ff02::1",
                                           "fd00::1",
                                           "FD00::1",
                                           "::ffff:10.0.0.1",
                                           "[::1]",
                                           "10.0.0.1:80",
                                           "10.0.0.0/8",
                                           "10.0.0.1/8",
                                           "10.0.0.0/33",
                                           "fd00::/8",
                                           "::/0",
                                           "0.0.0.0/0",
                                           "10.96.0.10",
                                           "10.96.0.99",
                                           "192.168.0.1",
                                           "fd00:10:96::10",
                                           "fd00:10:96::77",
                                           "1.2.3.4 ",
                                           "a.b.c.d",
                                           "None",
                                           "none"};

constexpr std::string_view kQuantities[] = {"1",
                                            "0",
                                            "-1",
                                            "1.5",
                                            "500m",
                                            "1m",
                                            "0.5m",
                                            "1u",
                                            "64Mi",
                                            " 64Mi",
                                            "64Mi ",
                                            "64Mx",
                                            "",
                                            "x",
                                            "1e3",
                                            "1E",
                                            "1e400",
                                            "1e-400",
                                            "-1e400",
                                            "9223372036854775807",
                                            "9223372036854775808",
                                            "99Ei",
                                            "1Ki",
                                            "1.5Ki",
                                            "1k",
                                            "1K",
                                            "4Mi",
                                            "3Mi",
                                            "2Mi",
                                            "1Gi",
                                            "+1",
                                            "--1",
                                            "1..5",
                                            ".5",
                                            "5.",
                                            "1,5",
                                            "0x10",
                                            "1_000",
                                            "1Mi1",
                                            "1 Mi",
                                            "١",
                                            "1e",
                                            "1e+3"};

constexpr std::string_view kNumbers[] = {"0",
                                         "1",
                                         "2",
                                         "3",
                                         "5",
                                         "10",
                                         "53",
                                         "80",
                                         "100",
                                         "101",
                                         "255",
                                         "256",
                                         "511",
                                         "512",
                                         "600",
                                         "1000",
                                         "3600",
                                         "65535",
                                         "65536",
                                         "86400",
                                         "86401",
                                         "-1",
                                         "-2",
                                         "2147483647",
                                         "2147483648",
                                         "-2147483648",
                                         "-2147483649",
                                         "4294967295",
                                         "4294967296",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "-9223372036854775808",
                                         "99999999999999999999",
                                         "80.0",
                                         "1.5",
                                         "1e3",
                                         "1e400",
                                         "-0",
                                         "0.0",
                                         "30080",
                                         "32767",
                                         "32768",
                                         "7862400",
                                         "2000000000",
                                         "2000000001"};

constexpr std::string_view kTimes[] = {"2026-01-02T03:04:05Z",
                                       "2026-01-02T03:04:05.678Z",
                                       "2026-01-02",
                                       "2026-13-02T03:04:05Z",
                                       "2026-01-02T03:04:05+02:00",
                                       "now",
                                       "",
                                       "2026-01-02 03:04:05Z",
                                       "0001-01-01T00:00:00Z"};

constexpr size_t kLengths[] = {15, 16, 63, 64, 253, 254, 2048, 4096};
constexpr size_t kCounts[] = {2, 4, 21, 33, 101, 257};

Node Text(std::string_view text) { return Node::String(std::string(text)); }

Node Number(std::string_view text) {
  Node node;
  const bool whole = text.find_first_of(".eE") == std::string_view::npos;
  node.kind = whole ? Node::Kind::kInt : Node::Kind::kFloat;
  node.text = text;
  return node;
}

const Node* Harvested(const std::string& name, const Harvest& harvest, Chance& chance) {
  const auto found = harvest.find(name);
  return found == harvest.end() ? nullptr : &chance.OneOf(found->second);
}

// What stands there with one thing made wrong, or right.
std::string Damaged(std::string text, Chance& chance) {
  switch (chance.Below(9)) {
    case 0:
      return text + "-";
    case 1:
      return "-" + text;
    case 2:
      return text + " ";
    case 3:
      return text + "." + text;
    case 4:
      return text + "/" + text;
    case 5:
      for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
      return text;
    case 6:
      return text.substr(0, text.size() / 2);
    case 7:
      return text + "_x";
    default:
      return std::string(chance.OneOf(kLengths), 'a');
  }
}

Node AnyText(const std::string& name, const Node* now, const Harvest& harvest, Chance& chance) {
  const size_t way = chance.Below(100);
  if (way < 20 && now != nullptr && now->kind == Node::Kind::kString) {
    return Node::String(Damaged(now->text, chance));
  }
  if (way < 40) {
    const Node* same = Harvested(name, harvest, chance);
    if (same != nullptr && same->kind == Node::Kind::kString) return *same;
  }
  if (way < 60) return Text(chance.OneOf(kNames));
  if (way < 75) return Text(chance.OneOf(kWords));
  if (way < 85) return Text(chance.OneOf(kPaths));
  if (way < 93) return Text(chance.OneOf(kAddresses));
  if (way < 97) return Text(chance.OneOf(kQuantities));
  return Node::String(std::string(chance.OneOf(kLengths), 'a'));
}

Node AnyNumber(Chance& chance) { return Number(chance.OneOf(kNumbers)); }

Node AnySpecial(SpecialType type, const std::string& name, const Node* now, const Harvest& harvest,
                Chance& chance) {
  switch (type) {
    case SpecialType::kQuantity:
      return chance.Percent(80) ? Text(chance.OneOf(kQuantities)) : AnyNumber(chance);
    case SpecialType::kIntOrString:
      return chance.Percent(50) ? AnyNumber(chance) : AnyText(name, now, harvest, chance);
    case SpecialType::kTime:
    case SpecialType::kMicroTime:
    case SpecialType::kDuration:
      return Text(chance.OneOf(kTimes));
    default:
      return Node::Map();
  }
}

Node AnyMap(const FieldDescriptor& field, const std::string& name, const Node* now,
            const Harvest& harvest, Chance& chance) {
  Node map =
      now != nullptr && now->kind == Node::Kind::kMap && chance.Percent(70) ? *now : Node::Map();
  const bool quantity =
      field.message_type()->map_value()->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (!map.members.empty() && chance.Percent(50)) {  // another value of a key that is there
    Node& value = map.members[chance.Below(map.members.size())].value;
    value = quantity ? Text(chance.OneOf(kQuantities)) : AnyText(name, &value, harvest, chance);
    return map;
  }
  const Node key = AnyText("", nullptr, harvest, chance);
  if (map.Find(key.text) != nullptr) return map;
  map.Add(key.text,
          quantity ? Text(chance.OneOf(kQuantities)) : AnyText(name, nullptr, harvest, chance));
  return map;
}

Node AnyItem(const FieldDescriptor& field, const std::string& name, const Harvest& harvest,
             Chance& chance) {
  const Node* lists = Harvested(name, harvest, chance);
  if (lists != nullptr && !lists->items.empty() && chance.Percent(50))
    return chance.OneOf(lists->items);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return AnyText(name, nullptr, harvest, chance);
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return Node::Map();
  return AnyNumber(chance);
}

// One item twice, one more, another one, or very many.
Node AnyList(const FieldDescriptor& field, const std::string& name, const Node* now,
             const Harvest& harvest, Chance& chance) {
  Node list = now != nullptr && now->kind == Node::Kind::kList ? *now : Node::List();
  const size_t way = chance.Below(100);
  if (way < 35 && !list.items.empty()) {
    list.items.push_back(chance.OneOf(list.items));
  } else if (way < 75) {
    list.items.push_back(AnyItem(field, name, harvest, chance));
  } else if (way < 90) {
    list = Node::List();
    list.items.push_back(AnyItem(field, name, harvest, chance));
  } else {
    const Node item = AnyItem(field, name, harvest, chance);
    list.items.assign(chance.OneOf(kCounts), item);
  }
  return list;
}

}  // namespace

void Gather(const Node& node, Harvest* harvest) {
  for (const Node& item : node.items) Gather(item, harvest);
  for (const Member& member : node.members) {
    (*harvest)[member.key].push_back(member.value);
    Gather(member.value, harvest);
  }
}

Node ValueFor(const FieldDescriptor& field, const std::string& name, const Node* now,
              const Harvest& harvest, Chance& chance) {
  if (field.is_map()) return AnyMap(field, name, now, harvest, chance);
  if (field.is_repeated()) return AnyList(field, name, now, harvest, chance);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return AnyText(name, now, harvest, chance);
    case FieldDescriptor::CPPTYPE_BOOL:
      return Node::Bool(chance.Percent(60));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const SpecialType special = SchemaOf(field.message_type()).special;
      if (special != SpecialType::kNone) return AnySpecial(special, name, now, harvest, chance);
      const Node* same = Harvested(name, harvest, chance);
      return same == nullptr ? Node::Map() : *same;
    }
    default:
      return AnyNumber(chance);
  }
}

Node WrongTypeFor(const FieldDescriptor& field, Chance& chance) {
  std::vector<Node> wrong = {Node::Bool(true), Number("1"),  Text("x"), Node::List(),
                             Node::Map(),      Text("true"), Text("1"), Number("1.5")};
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) wrong[2] = Number("0");
  return chance.OneOf(wrong);
}

Node EmptyFor(const FieldDescriptor& field, Chance& chance) {
  if (chance.Percent(30)) return {};  // null
  if (field.is_map()) return Node::Map();
  if (field.is_repeated()) return Node::List();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return Text("");
    case FieldDescriptor::CPPTYPE_BOOL:
      return Node::Bool(false);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return SchemaOf(field.message_type()).special == SpecialType::kNone ? Node::Map() : Text("");
    default:
      return Number("0");
  }
}

}  // namespace holdfast::agent::kube
