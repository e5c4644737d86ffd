// SPDX-License-Identifier: Apache-2.0
// The real holdctl against a real server on a real socket, as root and as users with and without
// groups. Needs root to change users.
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pty.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <set>
#include <thread>

#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"
#include "tests/support/api_fixture.h"

namespace holdfast::agent {
namespace {

constexpr uid_t kNobody = 65534;

struct Ran {
  int code = -1;
  std::string out;
  std::string err;
};

class HoldctlTest : public ApiFixture {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ApiFixture::SetUp();
    // Where every user may execute it.
    program_ = root_ + "/holdctl";
    std::filesystem::copy_file(HOLDCTL, program_);
    ASSERT_EQ(::chmod(program_.c_str(), 0755), 0);
    StartServer();
    pods_.SetPod(RunningPod("web-node1", "uid-web"));
  }
  void TearDown() override {
    if (!root_.empty()) ApiFixture::TearDown();
  }

  // Runs holdctl through sh (which redirects) as `uid` with `groups`.
  Ran RunAs(uid_t uid, const std::vector<gid_t>& groups, const std::string& arguments) {
    const std::string out = root_ + "/out";
    const std::string err = root_ + "/err";
    for (const std::string& file : {out, err}) {
      std::ofstream(file).close();
      EXPECT_EQ(::chmod(file.c_str(), 0666), 0);
    }
    const std::string command = "{ " + program_ + " --socket " + options_.socket_path + " " +
                                arguments + "; } >" + out + " 2>" + err + " </dev/null";
    const pid_t pid = ::fork();
    if (pid == 0) {  // async-signal-safe calls only
      if (::setgroups(groups.size(), groups.data()) != 0 || ::setgid(uid) != 0 ||
          ::setuid(uid) != 0) {
        ::_exit(126);
      }
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(126);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadText(out), ReadText(err)};
  }
  Ran Run(const std::string& arguments) { return RunAs(0, {}, arguments); }

  std::string program_;
};

TEST_F(HoldctlTest, GetsPods) {
  const Ran ran = Run("get pods");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(
      ran.out.starts_with("NAME        READY   STATUS    RESTARTS   AGE\n"
                          "web-node1   1/1     Running   0          "))
      << ran.out;
  EXPECT_EQ(Run("get pods -o name").out, "pod/web-node1\n");
  EXPECT_EQ(Run("get pod web -o jsonpath='{.status.podIP}'").out, "10.88.0.5");
  EXPECT_EQ(Run("-n empty get po").err, "No resources found in empty namespace.\n");
  const Ran missing = Run("get pod x");
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.err, "Error from server (NotFound): pods \"x\" not found\n");
  EXPECT_EQ(Run("get pods -l app=web-node1 --no-headers | wc -l").out, "1\n");
  EXPECT_EQ(Run("get nothing").code, 1);
  EXPECT_EQ(Run("get pods --bogus").code, 2);
}

TEST_F(HoldctlTest, FormsAndFlagsOfGetAreKubectls) {
  EXPECT_EQ(Run("get pods --show-kind --no-headers | cut -d' ' -f1").out, "pod/web-node1\n");
  std::ofstream(root_ + "/path") << "{range .items[*]}{.metadata.name}{'\\n'}{end}";
  EXPECT_EQ(Run("get pods -o jsonpath-file=" + root_ + "/path").out, "web-node1\n");
  EXPECT_EQ(Run("get pod web -o jsonpath-as-json='{.metadata.name}{.kind}'").out,
            "[\n    \"web-node1\"\n]\n[\n    \"Pod\"\n]\n");
  std::ofstream(root_ + "/columns") << "NAME  LABELS\nmetadata.name {.metadata.labels}\n";
  EXPECT_EQ(Run("get pods -o custom-columns-file=" + root_ + "/columns").out,
            "NAME        LABELS\nweb-node1   map[app:web-node1]\n");
  EXPECT_EQ(Run("get pods -o jsonpath={.a[}").err,
            "error: error parsing jsonpath {.a[}, unterminated array\n");
  EXPECT_EQ(
      Run("get pods -o jsonpath={.kind[0]}").err,
      "error: error executing jsonpath: Error executing template: string is not array or slice\n");
  EXPECT_EQ(Run("get pods --sort-by=.nothing").err,
            "error: couldn't find any field with path \"{.nothing}\" in the list of objects\n");
  const Ran ignored = Run("get pods x web --ignore-not-found -o name");
  EXPECT_EQ(ignored.out + ignored.err, "pod/web-node1\n");
  EXPECT_EQ(ignored.code, 0);
  EXPECT_EQ(Run("get pod x --ignore-not-found -o yaml").out, "");
  EXPECT_EQ(Run("get pods --request-timeout=5 -o name").out, "pod/web-node1\n");
  EXPECT_TRUE(
      Run("get deploy/web")
          .err.starts_with(
              "error: the server doesn't have a resource type \"deploy\"; there are pods,"));
}

TEST_F(HoldctlTest, TopSaysWhatItCannotShow) {
  // The pod of the test has no cgroup.
  EXPECT_EQ(Run("top pods").err, "No resources found in default namespace.\n");
  const Ran web = Run("top pod/web");
  EXPECT_EQ(web.err, "error: pod \"web-node1\" has no running containers: nothing to measure\n");
  EXPECT_EQ(web.code, 1);
  EXPECT_EQ(Run("top pod x").err, "Error from server (NotFound): pods \"x\" not found\n");
  EXPECT_EQ(Run("top node other").err, "Error from server (NotFound): nodes \"other\" not found\n");
  const Ran node = Run("top node --no-headers");
  EXPECT_TRUE(node.out.starts_with("node1   ")) << node.out << node.err;
  EXPECT_TRUE(node.out.find("Mi   ") != std::string::npos) << node.out;
  EXPECT_NE(Run("top node --show-swap").out.find("   SWAP(bytes)   SWAP(%)\n"), std::string::npos);
  for (const char* wrong : {"top", "top services", "top pods --sort-by=name", "top pod a -l x=y",
                            "top node --containers", "top pods --show-capacity",
                            "top pods -w --interval=10ms", "top pods a b"}) {
    EXPECT_EQ(Run(wrong).code, 2) << wrong;
  }
}

TEST_F(HoldctlTest, ExecPassesOnOutputAndExitCode) {
  const Ran ran = Run("exec web -- sh -c 'echo out; echo err >&2; exit 7'");
  EXPECT_EQ(ran.code, 7);
  EXPECT_EQ(ran.out, "out\n");
  EXPECT_EQ(ran.err, "err\ncommand terminated with exit code 7\n");
  EXPECT_EQ(Run("exec -i web -- cat < /etc/hostname | head -c 0; echo done").out, "done\n");
}

TEST_F(HoldctlTest, AppliesAndReportsEveryFault) {
  std::ofstream(root_ + "/good.yaml") << "kind: Pod";
  std::ofstream(root_ + "/bad.yaml") << "bad";
  EXPECT_EQ(Run("apply -f " + root_ + "/good.yaml").out, "pod/web created\n");
  EXPECT_EQ(Run("apply --dry-run=client -f " + root_ + "/good.yaml").out,
            "pod/web created (dry run)\n");
  EXPECT_EQ(Run("apply --dry-run=server -f " + root_ + "/good.yaml").out,
            "pod/web created (server dry run)\n");
  const Ran bad = Run("apply -f " + root_ + "/bad.yaml");
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.err.find("/bad.yaml:1:1: not a manifest"), std::string::npos) << bad.err;
  const Ran none = Run("apply -f " + root_ + "/none.yaml");
  EXPECT_EQ(none.err, "error: the path \"" + root_ + "/none.yaml\" does not exist\n");
}

TEST_F(HoldctlTest, DeletesAndWaits) {
  const Ran ran = Run("delete pod web");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "pod \"web\" deleted from default namespace\n");
  EXPECT_TRUE(pods_.ListPods().empty());
  EXPECT_EQ(Run("delete pod none").code, 1);
  EXPECT_EQ(Run("delete pod none --ignore-not-found").code, 0);
}

// Here a deletion is answered only when three more were asked for, and no pod ends before all were.
TEST_F(HoldctlTest, DeletesManyTogetherAndTellsInOrder) {
  constexpr size_t kPods = 30;
  server_.reset();
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> asked;
  constexpr size_t kTogether = 4;
  size_t at_once = 0;
  size_t most_at_once = 0;
  node_.delete_object = [&](const std::string& kind, const std::string& object_namespace,
                            const std::string& name) -> Result<EditedObject> {
    if (name == "none") return NotFound("pods \"none\" not found");
    std::unique_lock lock(mutex);
    asked.push_back(name);
    most_at_once = std::max(most_at_once, ++at_once);
    changed.notify_all();
    // In whatever order they arrive: the first ones are there together.
    const bool together =
        changed.wait_for(lock, std::chrono::seconds(20), [&] { return most_at_once >= kTogether; });
    --at_once;
    if (!together) return Internal("nobody else came");
    if (asked.size() == kPods) {
      for (const std::string& ended : asked) pods_.RemovePod("uid-" + ended);
    }
    return EditedObject{kind, object_namespace, name, name + ".yaml", EditOutcome::kDeleted};
  };
  StartServer();
  std::string words;
  std::string told;
  for (size_t i = 0; i < kPods; ++i) {
    const std::string name = "p" + std::to_string(7 * i % kPods);
    pods_.SetPod(RunningPod(name + "-node1", "uid-" + name));
    words += " " + name + (i == 10 ? " none" : "");
    told += "pod \"" + name + "\" deleted from default namespace\n";
  }
  const Ran ran = Run("delete pod" + words + " --timeout=30s");
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, told);
  EXPECT_EQ(ran.err, "Error from server (NotFound): pods \"none\" not found\n");
  EXPECT_EQ(pods_.ListPods().size(), 1u);

  pods_.SetPod(RunningPod("b-node1", "uid-b"));
  const Ran late = Run("delete pod web b --timeout=1s");
  EXPECT_EQ(late.code, 1);
  EXPECT_EQ(late.err,
            "error: timed out waiting for the condition on pods/web-node1\n"
            "error: timed out waiting for the condition on pods/b-node1\n");
  EXPECT_EQ(Run("delete pod web b --no-wait").code, 0);
}

// Records what an agent is asked to delete, and lets it all go.
class DeletingTest : public HoldctlTest {
 protected:
  void SetUp() override {
    HoldctlTest::SetUp();
    if (IsSkipped()) return;
    server_.reset();
    node_.delete_object = [this](const std::string& kind, const std::string& ns,
                                 const std::string& name) -> Result<EditedObject> {
      const std::lock_guard lock(mutex_);
      asked_.insert(kind + " " + ns + "/" + name);
      return EditedObject{kind, ns, name, name + ".yaml", EditOutcome::kDeleted};
    };
    node_.set_deletion_grace = [this](const PodUid& uid,
                                      std::optional<std::chrono::seconds> grace) {
      const std::lock_guard lock(mutex_);
      if (grace) asked_.insert(uid.value + " in " + std::to_string(grace->count()) + "s");
    };
    node_.apply = [this](const std::string&, const std::string&, bool,
                         const std::string& ns) -> Result<std::vector<EditedObject>> {
      const std::lock_guard lock(mutex_);
      asked_.insert("apply to \"" + ns + "\"");
      return std::vector<EditedObject>();
    };
    StartServer();
    auto shop = std::make_shared<corev1::Service>();
    shop->mutable_metadata()->set_name("shop");
    shop->mutable_metadata()->set_namespace_("default");
    services_.services = {shop};
  }

  // What a command has made the agent delete.
  std::set<std::string> AskedBy(const std::string& arguments, int code = 0) {
    {
      const std::lock_guard lock(mutex_);
      asked_.clear();
    }
    const Ran ran = Run(arguments);
    EXPECT_EQ(ran.code, code) << arguments << ": " << ran.out << ran.err;
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  using Asked = std::set<std::string>;
  Asked asked_;
};

TEST_F(DeletingTest, OnlyWhatWasNamedGoes) {
  EXPECT_EQ(AskedBy("delete service --all --no-wait"), Asked{"Service default/shop"});
  EXPECT_EQ(AskedBy("delete svc --all --no-wait"), Asked{"Service default/shop"});
  EXPECT_EQ(AskedBy("delete pods,services --all --no-wait"),
            (Asked{"Pod default/web-node1", "Service default/shop"}));
  EXPECT_EQ(AskedBy("delete all --all --no-wait"),
            (Asked{"Pod default/web-node1", "Service default/shop"}));
  EXPECT_EQ(AskedBy("delete pod/web svc/shop --no-wait"),
            (Asked{"Pod default/web", "Service default/shop"}));
  EXPECT_EQ(AskedBy("delete pods -l app=web-node1 --no-wait"), Asked{"Pod default/web-node1"});
  EXPECT_EQ(AskedBy("delete pods -l app=none"), Asked());
  EXPECT_EQ(AskedBy("-n empty delete pods --all"), Asked());
  for (const char* words :
       {"deployment --all", "web --all", "foo web", "deployment web", "pods,foo --all",
        "svc shop --all", "pod/web --all", "pod web -l app=x", "nodes --all", "events --all",
        "endpoints shop", "pod", "web", "--all", "-l app=web-node1", "pods --all -l app=x",
        "pod/web shop", "-A pod web"}) {
    EXPECT_EQ(AskedBy(std::string("delete --no-wait ") + words, 1), Asked()) << words;
  }
  EXPECT_EQ(Run("delete foo --all").err,
            "error: the server doesn't have a resource type \"foo\"; there are pods, services, "
            "endpoints, endpointslices, events, nodes, configmaps, secrets and images\n");
  EXPECT_EQ(Run("delete pod").err, "error: resource(s) were provided, but no name was specified\n");
}

TEST_F(DeletingTest, APodThatIsEndingIsAskedForAgain) {
  auto ending = RunningPod("web-node1", "uid-web");
  ending.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
  pods_.SetPod(ending);
  EXPECT_EQ(AskedBy("delete pod web --grace-period=0 --force --no-wait"),
            (Asked{"Pod default/web", "uid-web in 0s"}));
  // To kill at once is a matter of --force, as with kubectl.
  EXPECT_EQ(AskedBy("delete pod web --grace-period=0 --no-wait"),
            (Asked{"Pod default/web", "uid-web in 1s"}));
  EXPECT_EQ(AskedBy("delete pod web --grace-period=5 --force", 1), Asked());
  EXPECT_EQ(AskedBy("delete pod web --grace-period=5 --now", 1), Asked());
}

TEST_F(DeletingTest, ApplyAndDeleteOfAFileMeanTheSameNamespace) {
  std::ofstream(root_ + "/pod.yaml") << "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: "
                                        "{containers: [{name: c, image: i}]}\n";
  std::ofstream(root_ + "/prod.yaml")
      << "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: prod}\n"
         "spec: {containers: [{name: c, image: i}]}\n";
  const std::string file = " -f " + root_ + "/pod.yaml";
  EXPECT_EQ(AskedBy("apply" + file), Asked{"apply to \"\""});
  EXPECT_EQ(AskedBy("apply -n other" + file), Asked{"apply to \"other\""});
  EXPECT_EQ(AskedBy("delete" + file), Asked{"Pod default/x"});
  EXPECT_EQ(AskedBy("delete -n other" + file), Asked{"Pod other/x"});
  const std::string elsewhere = " -f " + root_ + "/prod.yaml";
  EXPECT_EQ(AskedBy("delete" + elsewhere), Asked{"Pod prod/x"});
  EXPECT_EQ(AskedBy("delete -n other" + elsewhere, 1), Asked());
}

TEST_F(HoldctlTest, SaysThatThereAreTooManyConnections) {
  server_.reset();
  options_.connections_per_uid = 2;
  options_.connection_reserve = 0;
  StartServer();
  const auto first = NewStub();
  const auto second = NewStub();
  grpc::ClientContext contexts[2];
  const auto watch_first = first->WatchPods(&contexts[0], v1::WatchPodsRequest());
  const auto watch_second = second->WatchPods(&contexts[1], v1::WatchPodsRequest());
  v1::PodChange change;
  ASSERT_TRUE(watch_first->Read(&change));
  ASSERT_TRUE(watch_second->Read(&change));
  const Ran ran = Run("get pods");
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err,
            "error: the agent turns you away: too many connections of uid 0, limit 2; all have "
            "calls at work, 2 of them are of process " +
                std::to_string(::getpid()) + ": end some\n");
  contexts[0].TryCancel();
  (void)watch_first->Finish();
  EXPECT_TRUE(Eventually([&] { return Run("get pods").code == 0; }));
  contexts[1].TryCancel();
  (void)watch_second->Finish();
}

TEST_F(HoldctlTest, AWaitForNobodyIsAFailure) {
  for (const char* words : {"pod --all", "pod -l app=none"}) {
    const Ran ran = Run(std::string("-n empty wait --for=condition=Ready ") + words);
    EXPECT_EQ(ran.code, 1) << words;
    EXPECT_EQ(ran.err, "error: no matching resources found\n");
  }
  EXPECT_EQ(Run("-n empty wait --for=delete pod --all").code, 0);
  EXPECT_EQ(Run("wait --for=condition=Ready pod").err,
            "error: resource(s) were provided, but no name was specified\n");
  EXPECT_EQ(Run("wait --for=condition=Ready pod -l app=web-node1").out,
            "pod/web-node1 condition met\n");
  EXPECT_EQ(Run("wait --for=condition=Ready service/web").err,
            "error: services cannot be waited for; pods can\n");
  EXPECT_TRUE(Run("wait --for=condition=Ready deployment/web")
                  .err.starts_with("error: the server doesn't have a resource type"));
}

TEST_F(HoldctlTest, Waits) {
  EXPECT_EQ(Run("wait --for=condition=Ready pod/web --timeout=5s").out, "pod/web condition met\n");
  const Ran late = Run("wait --for=condition=Gone web --timeout=1s");
  EXPECT_EQ(late.code, 1);
  EXPECT_EQ(late.err, "error: timed out waiting for the condition on pods/web\n");
  EXPECT_EQ(Run("wait --for=jsonpath='{.status.phase}'=Running web").code, 0);
  EXPECT_EQ(Run("wait --for=delete none").code, 0);
}

TEST_F(HoldctlTest, ImportsListsAndExportsImages) {
  std::ofstream(root_ + "/app.tar") << "archive";
  const Ran imported = Run("image import " + root_ + "/app.tar --name app:1 --cmd '[\"a\",\"b\"]'");
  EXPECT_EQ(imported.out, "image/app:1 imported (7B)\n") << imported.err;
  EXPECT_EQ(Run("image ls --no-headers | awk '{print $1,$2,$4}'").out, "app 1 7B\n");
  EXPECT_EQ(Run("image inspect app:1 -o jsonpath='{.config.cmd[*]}'").out, "a b");
  EXPECT_EQ(Run("image export app:1 -o " + root_ + "/copy.tar").code, 0);
  EXPECT_EQ(ReadText(root_ + "/copy.tar"), "archive");
  EXPECT_EQ(Run("image rm app:1").out, "image \"app:1\" removed\n");
}

TEST_F(HoldctlTest, NamesImagesAndMakesRoom) {
  std::ofstream(root_ + "/app.tar") << "archive";
  ASSERT_EQ(Run("image import " + root_ + "/app.tar --name app:1").code, 0);
  EXPECT_EQ(Run("image tag app:1 registry:5000/app:2").out,
            "image \"app:1\" tagged \"registry:5000/app:2\"\n");
  EXPECT_EQ(Run("image export registry:5000/app:2").out, "archive");
  const Ran missing = Run("image tag none:1 x");
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.err, "Error from server (NotFound): image \"none:1\" not found\n");
  const Ran usage = Run("image du");
  EXPECT_TRUE(usage.out.starts_with(
      "IMAGE                 ID             SIZE   SHARED   UNIQUE   USED\n"
      "app:1                 aaaaaaaaaaaa   7B     0B       7B       never\n"))
      << usage.out;
  EXPECT_TRUE(usage.out.ends_with("\nTotal: 14B, of unfinished pulls: 0B, reclaimable: 14B\n"))
      << usage.out;
  // Nobody answers, so nothing is done.
  const Ran unsure = Run("image prune -a");
  EXPECT_EQ(unsure.code, 1);
  EXPECT_NE(unsure.err.find("Are you sure you want to continue? [y/N]"), std::string::npos);
  EXPECT_EQ(Run("image prune -f").out, "Total reclaimed space: 0B\n");
  EXPECT_EQ(Run("image prune -a -f --filter until=1000000000").out,
            "untagged: app:1\ndeleted: sha256:" + std::string(64, 'a') +
                "\nuntagged: registry:5000/app:2\ndeleted: sha256:" + std::string(64, 'a') +
                "\nTotal reclaimed space: 14B\n");
  for (const char* filter :
       {"label=x", "until=", "until=yesterday", "until=-1h", "until=1970-01-01T00:00:00Z"}) {
    const Ran wrong = Run(StrCat("image prune -f --filter ", filter));
    EXPECT_EQ(wrong.code, 1) << filter;
    EXPECT_NE(wrong.err.find("--filter"), std::string::npos) << wrong.err;
  }
}

TEST_F(HoldctlTest, PullsImagesAndTellsHowFarItIs) {
  const Ran pulled = Run("image pull registry.example/app:1");
  EXPECT_EQ(pulled.code, 0) << pulled.err;
  const std::string id = "sha256:" + std::string(64, 'a');
  EXPECT_EQ(pulled.out,
            "1: downloading (100B)\nimage/registry.example/app:1 pulled: " + id + " (0B)\n");
  EXPECT_EQ(Run("image pull -q registry.example/app:1").out, id + "\n");
  const Ran absent = Run("image pull absent:1");
  EXPECT_NE(absent.code, 0);
  EXPECT_NE(absent.err.find("absent:1: not found"), std::string::npos) << absent.err;
}

TEST_F(HoldctlTest, PushesImagesAndTellsWhatWentWhere) {
  const Ran pushed = Run("image push app:1 registry.example/app:1");
  EXPECT_EQ(pushed.code, 0) << pushed.err;
  EXPECT_EQ(pushed.out,
            "1: uploading (100B)\n2: taken over from another repository (100B)\n"
            "image/registry.example/app:1 pushed: r/app@sha256:m (2.05kB)\n");
  EXPECT_EQ(pushed.err, "");
  EXPECT_EQ(Run("image push -q app:1").out, "r/app@sha256:m\n");
  EXPECT_NE(Run("image push app:1").out.find("image/app:1 pushed"), std::string::npos);
  EXPECT_NE(Run("image push index:1").err.find("stands for an index here (sha256:i)"),
            std::string::npos);
  const Ran absent = Run("image push absent:1 registry.example/app:1");
  EXPECT_NE(absent.code, 0);
  EXPECT_NE(absent.err.find("no image absent:1"), std::string::npos) << absent.err;
}

TEST_F(HoldctlTest, ImportsOnlyWhatHasAnEnd) {
  std::ofstream(root_ + "/empty.tar").close();
  EXPECT_EQ(Run("image import " + root_ + "/empty.tar").err,
            "error: " + root_ + "/empty.tar: the file is empty\n");
  for (const char* device : {"/dev/zero", "/dev/null"}) {
    const Ran ran = Run(std::string("image import ") + device);
    EXPECT_EQ(ran.code, 1);
    EXPECT_NE(ran.err.find("no regular file"), std::string::npos) << ran.err;
  }
  EXPECT_TRUE(images_.List()->empty());
  EXPECT_EQ(Run("image import - --name app:2 < " + program_).code, 0);
  for (const auto& [wrong, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "source is required"},
           {"a b", "one archive at a time: b"},
           {"a --containerd-namespace=moby", "--containerd-namespace: only with --containerd"},
           {"--containerd --name app:1", "with --containerd images keep their names"}}) {
    const Ran ran = Run("image import " + wrong);
    EXPECT_EQ(ran.code, 2);
    EXPECT_TRUE(ran.err.starts_with("error: " + words)) << ran.err;
  }
  EXPECT_EQ(Run("image import --containerd=" + root_ + "/none").err,
            "error: open " + root_ + "/none: no such file or directory\n");
}

TEST_F(HoldctlTest, CompletionScriptsAreScripts) {
  // Shells without a syntax check of their own say so by running it.
  EXPECT_EQ(Run("completion bash | bash -n").err, "");
  const std::string complete = "completion bash > " + root_ + "/c; cd " + root_ +
                               "; export HOLDFAST_SOCKET=" + options_.socket_path +
                               " PATH=" + root_ + ":$PATH; ";
  const auto completed = [&](const std::string& words, int index) {
    return Run(complete + "bash -c '. ./c; COMP_WORDS=(" + words + "); COMP_CWORD=" +
               std::to_string(index) + "; _holdctl; echo ${COMPREPLY[@]}'; true");
  };
  EXPECT_EQ(completed("holdctl de", 1).out, "describe debug delete\n")
      << completed("holdctl de", 1).err;
  EXPECT_EQ(completed("holdctl image i", 2).out, "import inspect\n");
  EXPECT_EQ(completed("holdctl logs we", 2).out, "web-node1\n");
  EXPECT_EQ(completed("holdctl get pod we", 3).out, "web-node1\n");
  EXPECT_EQ(completed("holdctl describe no", 2).out, "node\n");
  EXPECT_EQ(completed("holdctl describe we", 2).out, "web-node1\n");
  EXPECT_EQ(completed("holdctl describe node ''", 3).out, "node1\n");
  EXPECT_EQ(completed("holdctl get conf", 2).out, "configmaps\n");
  EXPECT_EQ(completed("holdctl describe se", 2).out, "service secret\n");
  EXPECT_EQ(completed("holdctl explain se", 2).out, "service\n");
  EXPECT_EQ(completed("holdctl version -o ''", 3).out, "json yaml\n");
  EXPECT_EQ(completed("holdctl get pods -o js", 4).out,
            "json jsonpath= jsonpath-as-json= jsonpath-file=\n");
  EXPECT_EQ(completed("holdctl logs web-node1 -c ''", 4).out, "app\n");
  EXPECT_EQ(completed("holdctl logs -n d", 3).out, "default\n");
  EXPECT_EQ(completed("holdctl logs -n empty we", 4).out, "\n");
  EXPECT_EQ(completed("holdctl logs --namespace = empty we", 5).out, "\n");
  EXPECT_EQ(completed("holdctl logs --namespace = default we", 5).out, "web-node1\n");
  EXPECT_EQ(completed("holdctl top p", 2).out, "pods\n");
  EXPECT_EQ(completed("holdctl top pods --sort-by ''", 4).out, "cpu memory\n");
  EXPECT_EQ(completed("holdctl top node ''", 3).out, "node1\n");
  EXPECT_EQ(completed("holdctl get pods --field", 3).out, "--field-selector\n");
  EXPECT_EQ(Run("completion tcsh").code, 2);
}

TEST_F(HoldctlTest, AnUnknownCommandIsNamed) {
  const Ran ran = Run("foo --bar");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(ran.err.starts_with("error: unknown command \"foo\" for \"holdctl\"")) << ran.err;
  const Ran image = Run("image sign nginx");
  EXPECT_EQ(image.code, 2);
  EXPECT_EQ(image.err,
            "error: unknown command \"sign\" for \"holdctl image\"\n"
            "See 'holdctl image --help' for usage.\n");
}

TEST_F(HoldctlTest, HelpsAndTellsItsVersion) {
  EXPECT_EQ(Run("help get").out, Run("get --help").out);
  EXPECT_EQ(Run("help image ls").out, Run("image ls --help").out);
  EXPECT_EQ(Run("help").out, Run("--help").out);
  EXPECT_NE(Run("help get").out.find("--selector"), std::string::npos);
  EXPECT_EQ(Run("help foo").code, 2);
  for (const char* flag : {"-v", "--version"}) EXPECT_EQ(Run(flag).out, "Client Version: 0.1.0\n");
}

TEST_F(HoldctlTest, ShortOptionsTakeAnEqualsSign) {
  EXPECT_EQ(Run("get pods -n=default -o=name -l=app=web-node1").out, "pod/web-node1\n");
  EXPECT_EQ(Run("get pod web -o=jsonpath={.status.podIP}").out, "10.88.0.5");
  EXPECT_EQ(Run("get pods -n=empty").err, "No resources found in empty namespace.\n");
}

TEST_F(HoldctlTest, AWriteThatFailsIsAFailure) {
  std::ofstream(LogPath("web-node1", "uid-web")) << "2026-11-21T07:19:31.5Z stdout F one\n";
  for (const char* words :
       {"get pods", "get pods -o yaml", "get pods -o name", "describe pod web", "logs web",
        "exec web -- echo hello", "version", "version --client -o json", "completion bash",
        "--help", "check --repair", "get node -o jsonpath={.kind}"}) {
    const Ran ran = Run(std::string(words) + " > /dev/full");
    EXPECT_EQ(ran.code, 1) << words;
    EXPECT_TRUE(ran.err.ends_with("error: write stdout: no space left on device\n"))
        << words << ran.err;
  }
  // One that would go on and on ends.
  EXPECT_EQ(Run("get pods -w > /dev/full").code, 1);
  EXPECT_EQ(Run("logs -f web > /dev/full").code, 1);
}

TEST_F(HoldctlTest, ShowsSeveralKindsAtOnce) {
  auto shop = std::make_shared<corev1::Service>();
  shop->mutable_metadata()->set_name("shop");
  shop->mutable_metadata()->set_namespace_("default");
  services_.services = {shop};
  const auto names = [this](const std::string& words) {
    return Run("get " + words + " --no-headers | awk '{print $1}' | tr '\\n' ' '").out;
  };
  const std::string both = "pod/web-node1  service/shop ";  // an empty line between
  EXPECT_EQ(names("pods,svc"), both);
  EXPECT_EQ(names("all"), both);
  EXPECT_EQ(names("po/web svc/shop"), both);
  EXPECT_EQ(names("pods"), "web-node1 ");
  EXPECT_EQ(Run("get pods,svc -o name").out, "pod/web-node1\nservice/shop\n");
  EXPECT_EQ(Run("get pods,svc -o jsonpath='{.items[*].kind}'").out, "Pod Service");
  EXPECT_EQ(Run("get svc/shop -o jsonpath={.kind}").out, "Service");
  EXPECT_EQ(Run("get pods --show-labels -L app --no-headers | awk '{print $(NF-1),$NF}'").out,
            "web-node1 app=web-node1\n");
  EXPECT_EQ(Run("get pods -o custom-columns=N:.metadata.name,IP:.status.podIP").out,
            "N           IP\nweb-node1   10.88.0.5\n");
  EXPECT_EQ(Run("get pods --field-selector status.phase!=Running").err,
            "No resources found in default namespace.\n");
  EXPECT_EQ(Run("get pods --field-selector status.nope=1").code, 1);
  pods_.SetPod(RunningPod("a-node1", "uid-a"));
  EXPECT_EQ(names("pods --sort-by=.metadata.uid"), "a-node1 web-node1 ");
  EXPECT_EQ(names("pods --sort-by=.status.containerStatuses[0].containerID"), "a-node1 web-node1 ");
  for (const char* refused :
       {"pods,svc -w", "svc -w", "pod web -l a=b", "images,pods", "pod -A web", "deploy",
        "pods svc/shop", "pods --sort-by=.nope", "images -l a=b"}) {
    EXPECT_EQ(Run(std::string("get ") + refused).code, 1) << refused;
  }
}

// A ConfigMap and a Secret of a manifest, of ten minutes ago; all values are "swordfish", or bytes.
class ConfigsTest : public HoldctlTest {
 protected:
  void SetUp() override {
    HoldctlTest::SetUp();
    auto map = std::make_unique<corev1::ConfigMap>();
    map->mutable_metadata()->set_namespace_("default");
    map->mutable_metadata()->set_name("shop");
    (*map->mutable_metadata()->mutable_labels())["app"] = "shop";
    (*map->mutable_data())["a"] = "swordfish";
    (*map->mutable_binarydata())["b"] = std::string("\0\1", 2);
    Add(TakeConfigObject(std::move(map)));
    for (const char* name_space : {"default", "other"}) {
      auto secret = std::make_unique<corev1::Secret>();
      secret->mutable_metadata()->set_namespace_(name_space);
      secret->mutable_metadata()->set_name("key");
      secret->set_type("Opaque");
      (*secret->mutable_metadata()
            ->mutable_annotations())["kubectl.kubernetes.io/last-applied-configuration"] =
          "{\"stringData\":{\"password\":\"swordfish\"}}";
      (*secret->mutable_data())["password"] = "swordfish";
      Add(TakeConfigObject(std::move(secret)));
    }
  }

  void Add(const ConfigObjectPtr& taken) {
    auto object = std::make_shared<ConfigObject>(*taken);
    object->created = WallTime{clock_.Wall().since_epoch - std::chrono::minutes(10)};
    node_.configs.push_back(std::move(object));
  }
};

TEST_F(ConfigsTest, TablesAndFormsAreKubectls) {
  EXPECT_EQ(Run("get configmaps").out, "NAME   DATA   AGE\nshop   2      10m\n");
  EXPECT_EQ(Run("get secret").out, "NAME   TYPE     DATA   AGE\nkey    Opaque   1      10m\n");
  EXPECT_EQ(Run("get secrets -A --no-headers").out,
            "default   key   Opaque   1     10m\nother     key   Opaque   1     10m\n");
  EXPECT_EQ(Run("get cm,secret -o name").out, "configmap/shop\nsecret/key\n");
  EXPECT_EQ(Run("get cm/shop secret/key --no-headers | awk '{print $1}' | tr '\\n' ' '").out,
            "configmap/shop  secret/key ");
  EXPECT_EQ(Run("get cm -l app=shop --show-labels --no-headers | awk '{print $NF}'").out,
            "app=shop\n");
  EXPECT_EQ(Run("get cm -l app=other").err, "No resources found in default namespace.\n");
  EXPECT_EQ(Run("get secrets -A --sort-by=.metadata.namespace -o name").code, 0);
  EXPECT_EQ(Run("get secrets --field-selector type=Opaque -o name").out, "secret/key\n");
  EXPECT_EQ(Run("get configmap shop -o jsonpath='{.kind} {.data.a} {.binaryData.b}'").out,
            "ConfigMap swordfish AAE=");
  EXPECT_EQ(Run("get cm -o custom-columns=N:.metadata.name,A:.data.a").out,
            "N      A\nshop   swordfish\n");
  const Ran absent = Run("get cm nowhere");
  EXPECT_EQ(absent.code, 1);
  EXPECT_EQ(absent.err, "Error from server (NotFound): configmaps \"nowhere\" not found\n");
  EXPECT_NE(Run("describe configmap shop").out.find("a:\n----\nswordfish\n"), std::string::npos);
  EXPECT_NE(Run("describe secret ke").out.find("password:  9 bytes\n"), std::string::npos);
  EXPECT_EQ(Run("get cm -w").code, 1);
}

TEST_F(ConfigsTest, NoWayShowsTheValueOfASecret) {
  for (const char* form : {"json", "yaml", "'jsonpath={..data}'", "'jsonpath-as-json={..data}'",
                           "custom-columns=A:.data"}) {
    for (const char* words : {"secrets", "secret key", "secrets -A", "cm,secrets"}) {
      const Ran ran = Run(std::string("get ") + words + " -o " + form);
      EXPECT_EQ(ran.code, 1) << words << form;
      EXPECT_EQ(ran.out, "") << words << form;
      EXPECT_TRUE(ran.err.starts_with("error: secrets are shown as a table or by -o name only"))
          << ran.err;
    }
  }
  for (const char* words : {"get secrets -o wide --show-labels", "describe secret",
                            "get secrets --sort-by=.data.password",
                            "get secrets --field-selector data.password!=x", "delete secret key"}) {
    const Ran ran = Run(words);
    EXPECT_EQ((ran.out + ran.err).find("swordfish"), std::string::npos) << words;
  }
  // What comes over the socket, whoever asks for it.
  v1::ListSecretsResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(NewStub()->ListSecrets(&context, v1::ListSecretsRequest(), &response).ok());
  ASSERT_EQ(response.secrets_size(), 2);
  EXPECT_EQ(response.secrets(0).data_bytes().at("password"), 9u);
  EXPECT_EQ(response.SerializeAsString().find("swordfish"), std::string::npos);
  EXPECT_NE(response.secrets(0).metadata().uid(), response.secrets(1).metadata().uid());
}

TEST_F(ConfigsTest, AViewerAndANodeOfAClusterHaveNone) {
  for (const char* kind : {"cm", "secrets"}) {
    const Ran viewer = RunAs(kNobody, {4242, 4244}, std::string("get ") + kind);
    EXPECT_EQ(viewer.code, 1) << kind;
    EXPECT_TRUE(viewer.err.starts_with("Error from server (Forbidden)")) << viewer.err;
    EXPECT_EQ(RunAs(kNobody, {4242}, std::string("get ") + kind).code, 0) << kind;
  }
  node_.cluster_has_configs = "this node belongs to a cluster";
  const Ran joined = Run("get cm");
  EXPECT_EQ(joined.code, 1);
  EXPECT_NE(joined.err.find("this node belongs to a cluster"), std::string::npos) << joined.err;
}

TEST_F(HoldctlTest, EndpointsAsDocumentsAreAlwaysAList) {
  auto slice = std::make_shared<discoveryv1::EndpointSlice>();
  slice->mutable_metadata()->set_namespace_("default");
  slice->mutable_metadata()->set_name("shop-x");
  (*slice->mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = "shop";
  slice->set_addresstype("IPv4");
  slice->add_endpoints()->add_addresses("10.88.0.5");
  services_.slices = {slice};
  for (const char* words : {"endpoints", "endpoints shop"}) {
    EXPECT_EQ(Run(std::string("get ") + words + " -o jsonpath='{.kind}{.items[*].kind}'").out,
              "ListEndpointSlice")
        << words;
  }
  EXPECT_EQ(Run("get endpointslices -o jsonpath={.kind}").out, "List");
  EXPECT_EQ(Run("get endpointslice shop-x -o jsonpath={.kind}").out, "EndpointSlice");
  EXPECT_EQ(Run("get endpoints -o name").out, "endpointslice.discovery.k8s.io/shop-x\n");
  EXPECT_EQ(Run("get $(" + program_ + " --socket " + options_.socket_path +
                " get ep -o name) --no-headers | awk '{print $1,$2,$3,$4}'")
                .out,
            "shop-x IPv4 <unset> 10.88.0.5\n");
  EXPECT_EQ(Run("get ep shop --no-headers | awk '{print $1,$2}'").out, "shop 10.88.0.5\n");
  EXPECT_EQ(Run("get svc -o jsonpath='{.items}'").out, "[]") << "none is a List too";
}

TEST_F(HoldctlTest, GivesUpARequestThatIsNotAnswered) {
  server_.reset();
  node_.node = [] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return k8s::io::api::core::v1::Node();
  };
  StartServer();
  const Ran ran = Run("get node --request-timeout=300ms");
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "error: the agent gave no answer within --request-timeout\n");
  EXPECT_EQ(Run("get node --request-timeout=soon").code, 2);
  EXPECT_EQ(Run("get pods --request-timeout=0").code, 0);
}

TEST_F(HoldctlTest, SaysThatTheAgentWentAway) {
  Ran ran;
  std::thread watching([&] { ran = Run("get pods -w"); });
  EXPECT_TRUE(
      Eventually([&] { return ReadText(root_ + "/out").find("web-node1") != std::string::npos; }));
  server_.reset();
  watching.join();
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("pods go on without it: run the command again"), std::string::npos)
      << ran.err;
}

TEST_F(HoldctlTest, Checks) {
  const Ran check = Run("check");
  EXPECT_EQ(check.code, 1);
  EXPECT_NE(check.out.find("cgroup   kubepods/pod-x   no pod of this UID"), std::string::npos);
  EXPECT_NE(check.out.find("in its cluster: no answer"), std::string::npos) << check.out;
  EXPECT_EQ(Run("check --repair").code, 1) << "a right is missing still";
  node_.rights = {};
  EXPECT_EQ(Run("check --repair").code, 0);
}

TEST_F(HoldctlTest, DescribesPodsByTheirBeginnings) {
  const Ran one = Run("describe pod web");
  EXPECT_TRUE(one.out.starts_with("Name:         web-node1\nNamespace:    default\n")) << one.out;
  EXPECT_EQ(Run("describe web").out, one.out);
  pods_.SetPod(RunningPod("web2-node1", "uid-web2"));
  auto elsewhere = RunningPod("web-node1", "uid-else");
  elsewhere.mutable_metadata()->set_namespace_("prod");
  pods_.SetPod(elsewhere);
  const auto names = [this](const std::string& arguments) {
    return Run("describe " + arguments + " | grep -A1 ^Name: | tr -s '\\n ' ' '").out;
  };
  const std::string both =
      "Name: web-node1 Namespace: default -- Name: web2-node1 Namespace: default ";
  EXPECT_EQ(names("pods we"), both);
  EXPECT_EQ(names("pods web"), "Name: web-node1 Namespace: default ");
  EXPECT_EQ(names("pods"), both);
  EXPECT_EQ(names("po/web2-"), "Name: web2-node1 Namespace: default ");
  EXPECT_EQ(names("pod prod/web"), "Name: web-node1 Namespace: prod ");
  EXPECT_EQ(names("pods -A"), both + "-- Name: web-node1 Namespace: prod ");
  EXPECT_EQ(Run("describe pods -A web").err,
            "error: a resource cannot be retrieved by name across all namespaces\n");
  EXPECT_EQ(Run("describe pod x").err, "Error from server (NotFound): pods \"x\" not found\n");
  EXPECT_EQ(Run("-n empty describe pods").err, "No resources found in empty namespace.\n");
  EXPECT_EQ(Run("describe images").code, 1);
}

TEST_F(HoldctlTest, DescribesTheNodeAndServices) {
  const Ran node = Run("describe node");
  EXPECT_EQ(node.code, 0) << node.err;
  EXPECT_NE(node.out.find("Non-terminated Pods:          (1 in total)\n"), std::string::npos)
      << node.out;
  EXPECT_EQ(Run("describe node node").out, node.out);
  EXPECT_EQ(Run("describe node other").code, 1);
  auto shop = std::make_shared<corev1::Service>();
  shop->mutable_metadata()->set_name("shop");
  shop->mutable_metadata()->set_namespace_("default");
  shop->mutable_spec()->add_ports()->set_name("http");
  services_.services = {shop};
  auto slice = std::make_shared<discoveryv1::EndpointSlice>();
  slice->mutable_metadata()->set_namespace_("default");
  (*slice->mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = "shop";
  slice->add_endpoints()->add_addresses("10.88.0.5");
  auto* port = slice->add_ports();
  port->set_name("http");
  port->set_port(8080);
  services_.slices = {slice};
  const Ran service = Run("describe service sho");
  EXPECT_TRUE(service.out.starts_with("Name:              shop\n")) << service.out;
  EXPECT_NE(service.out.find("Endpoints:         10.88.0.5:8080\n"), std::string::npos)
      << service.out;
  EXPECT_EQ(Run("describe services -A").out, service.out);
  EXPECT_EQ(Run("describe svc/x").err, "Error from server (NotFound): services \"x\" not found\n");
}

TEST_F(HoldctlTest, TellsVersionsAsText) {
  EXPECT_EQ(Run("version --client").out, "Client Version: 0.1.0\n");
  EXPECT_TRUE(Run("version").out.starts_with(
      "Client Version: 0.1.0\nServer Version: 0.1.0\nAPI: holdfast.v1\nNode: node1\nKernel: "));
  EXPECT_EQ(Run("version -o wide").code, 2);
}

TEST_F(HoldctlTest, TellsVersionsAsDocuments) {
  const std::string only_client = Run("version --client -o yaml").out;
  EXPECT_TRUE(only_client.starts_with("clientVersion:\n  gitVersion: v0.1.0\n")) << only_client;
  EXPECT_EQ(only_client.find("serverVersion"), std::string::npos);
  const Ran both = Run("version -o json");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.out.find("\"serverVersion\": {\n        \"apiVersion\": \"holdfast.v1\""),
            std::string::npos)
      << both.out;
  // Without an agent the client's is there all the same.
  server_.reset();
  const Ran alone = Run("version -o yaml");
  EXPECT_EQ(alone.code, 1);
  EXPECT_EQ(alone.out, only_client);
  EXPECT_NE(alone.err.find("the agent is not running"), std::string::npos) << alone.err;
}

TEST_F(HoldctlTest, ExplainsAServiceAsADocument) {
  ExplainedService explained;
  explained.table.skipped = "it has no selector";
  services_.explained[{"default", "shop"}] = explained;
  EXPECT_EQ(Run("explain service shop -o yaml").out,
            "ports: []\nproblems: []\nskipped: it has no selector\n");
  EXPECT_EQ(Run("explain svc/shop -o json | tr -d ' \\n'").out,
            "{\"ports\":[],\"problems\":[],\"skipped\":\"ithasnoselector\"}");
  EXPECT_EQ(Run("explain service shop -o name").code, 2);
  EXPECT_EQ(Run("explain service none -o json").code, 1);
}

TEST_F(HoldctlTest, PrintsLogs) {
  std::ofstream(LogPath("web-node1", "uid-web"))
      << "2026-11-21T07:19:31.5Z stdout F one\n2026-11-21T07:19:32Z stderr P tw\n"
      << "2026-11-21T07:19:32Z stderr F o\n";
  EXPECT_EQ(Run("logs web").out, "one\ntwo\n");
  EXPECT_EQ(Run("logs web --tail=1 --timestamps --prefix").out,
            "[pod/web-node1/app] 2026-11-21T07:19:32.000000000Z two\n");
  EXPECT_EQ(
      Run("logs web -c nope").err,
      "Error from server (NotFound): container nope is not valid for pod web-node1, choose one "
      "of: [app]\n");
}

TEST_F(HoldctlTest, LogsAndExecSayWhatIsWrong) {
  std::ofstream(LogPath("web-node1", "uid-web")) << "2026-11-21T07:19:31.5Z stdout F one\n";
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"logs web --tail=-5", "error: --tail must be greater than or equal to -1\n"},
      {"logs web --limit-bytes=-1", "error: --limit-bytes must be greater than 0\n"},
      {"logs web --limit-bytes=0", "error: --limit-bytes must be greater than 0\n"},
      {"logs web --since=0s", "error: --since must be greater than 0\n"},
      {"logs web --since=5s --since-time=2026-01-01T00:00:00Z",
       "error: at most one of `sinceTime` or `sinceSeconds` may be specified\n"},
      {"logs svc/web", "Error from server (NotFound): services \"web\" not found\n"},
      {"logs deployment/web", "error: deployments.apps \"web\" has no pod on this node\n"},
      {"exec sts/web -- true", "error: statefulsets.apps \"web\" has no pod on this node\n"},
      {"attach rc/web", "error: replicationcontrollers \"web\" has no pod on this node\n"},
      {"debug deploy/web --image=x",
       "error: \"apps/v1, Kind=Deployment\" not supported by debug\n"},
      {"exec node/node1 -- true", "error: node/node1: nodes have no containers: name a pod\n"},
  };
  for (const auto& [words, error] : cases) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.code, 1) << words;
    EXPECT_EQ(ran.err, error) << words;
  }
  EXPECT_EQ(Run("logs web --tail=-1").out, "one\n");
  auto more = RunningPod("more-node1", "uid-more");
  (*more.mutable_metadata()->mutable_labels())["app"] = "web-node1";  // it has no log
  pods_.SetPod(more);
  EXPECT_EQ(Run("logs -l app=web-node1").code, 1);
  const Ran ignored = Run("logs -l app=web-node1 --ignore-errors");
  EXPECT_EQ(ignored.code, 0);
  EXPECT_EQ(ignored.out, "one\n");
  EXPECT_NE(ignored.err.find("error from pod/more-node1/app"), std::string::npos) << ignored.err;
}

TEST_F(HoldctlTest, ATypeAndANameMeanOneOfItsPods) {
  for (const auto& [name, since] : {std::pair("shop-5d-a", 200), std::pair("shop-5d-b", 100)}) {
    auto pod = RunningPod(name, std::string("uid-") + name);
    auto& meta = *pod.mutable_metadata();
    (*meta.mutable_labels())["app"] = "shop";
    (*meta.mutable_labels())["pod-template-hash"] = "5d";
    auto& owner = *meta.add_ownerreferences();
    owner.set_kind("ReplicaSet");
    owner.set_name("shop-5d");
    pod.mutable_status()->clear_conditions();
    auto& ready = *pod.mutable_status()->add_conditions();
    ready.set_type("Ready");
    ready.set_status("True");
    ready.mutable_lasttransitiontime()->set_seconds(since);
    pods_.SetPod(pod);
    std::ofstream(LogPath(name, std::string("uid-") + name))
        << "2026-11-21T07:19:31.5Z stdout F of " << name << "\n";
  }
  auto done = RunningPod("done-x", "uid-done");
  done.mutable_status()->set_phase("Succeeded");
  auto& job = *done.mutable_metadata()->add_ownerreferences();
  job.set_kind("Job");
  job.set_name("done");
  pods_.SetPod(done);
  auto shop = std::make_shared<corev1::Service>();
  shop->mutable_metadata()->set_name("shop");
  shop->mutable_metadata()->set_namespace_("default");
  (*shop->mutable_spec()->mutable_selector())["app"] = "shop";
  auto bare = std::make_shared<corev1::Service>(*shop);
  bare->mutable_metadata()->set_name("bare");
  bare->mutable_spec()->clear_selector();
  auto lonely = std::make_shared<corev1::Service>(*shop);
  lonely->mutable_metadata()->set_name("lonely");
  (*lonely->mutable_spec()->mutable_selector())["app"] = "none";
  services_.services = {shop, bare, lonely};

  for (const char* target : {"deploy/shop", "deployments.apps/shop", "rs/shop-5d", "svc/shop"}) {
    const Ran ran = Run(std::string("logs ") + target);
    EXPECT_EQ(ran.out, "of shop-5d-b\n") << target << ": the one that is ready for longer";
    EXPECT_EQ(ran.err, "Found 2 pods, using pod/shop-5d-b\n");
  }
  const Ran exec = Run("exec deploy/shop -- sh -c 'exit 3'");
  EXPECT_EQ(exec.code, 3);
  EXPECT_EQ(exec.err, "command terminated with exit code 3\n");
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"attach job/done",
       "error: cannot attach a container in a completed pod; current phase is Succeeded\n"},
      {"port-forward job/done 80",
       "error: unable to forward port because pod is not running. Current status=Succeeded\n"},
      {"exec svc/bare -- true",
       "error: cannot attach to *v1.Service: invalid service 'bare': Service is defined without a "
       "selector\n"},
      {"logs svc/bare",
       "error: cannot get the logs from *v1.Service: invalid service 'bare': Service is defined "
       "without a selector\n"},
      {"port-forward svc/lonely 80", "error: services \"lonely\" has no pod on this node\n"},
  };
  for (const auto& [words, error] : cases) {
    const Ran ran = Run(words);
    EXPECT_EQ(ran.code, 1) << words;
    EXPECT_EQ(ran.err, error) << words;
  }
}

TEST_F(HoldctlTest, AStrangerIsTurnedAwayByTheSocketsMode) {
  const Ran ran = RunAs(kNobody, {}, "get pods");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("no permission to use"), std::string::npos) << ran.err;
}

TEST_F(HoldctlTest, AStrangerIsTurnedAwayByTheServerToo) {
  ASSERT_EQ(::chmod(options_.socket_path.c_str(), 0666), 0);
  const Ran ran = RunAs(kNobody, {}, "get pods");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("no role"), std::string::npos) << ran.err;
  EXPECT_TRUE(Eventually([&] {
    return AuditText().find("\"stage\":\"refused\",\"id\":0,\"uid\":65534") != std::string::npos;
  })) << AuditText();
}

// Who may do nothing could otherwise push what was done out of the log.
TEST_F(HoldctlTest, AStrangersRefusalsAreCountedNotWritten) {
  ASSERT_EQ(::chmod(options_.socket_path.c_str(), 0666), 0);
  const std::string more = program_ + " --socket " + options_.socket_path + " get pods; ";
  const std::string many = "get pods; for i in $(seq 99); do " + more + "done; true";
  const auto written = [&] {
    int lines = 0;
    std::istringstream text(AuditText());
    for (std::string line; std::getline(text, line);) {
      lines += line.find("\"stage\":\"refused\"") != std::string::npos ? 1 : 0;
    }
    return lines;
  };
  ASSERT_EQ(RunAs(kNobody, {}, many).code, 0);
  EXPECT_GE(written(), 20);
  EXPECT_LT(written(), 100);
  EXPECT_TRUE(Eventually([&] {
    (void)RunAs(kNobody, {}, "get pods");
    return AuditText().find(" before it that were not written") != std::string::npos;
  })) << AuditText();
}

TEST_F(HoldctlTest, GroupsGiveWhatTheirRolesAllow) {
  struct stat info{};
  ASSERT_EQ(::stat(options_.socket_path.c_str(), &info), 0);
  EXPECT_EQ(info.st_gid, 4242u);
  std::ofstream(root_ + "/pod.yaml") << "kind: Pod";
  const std::string apply = "apply -f " + root_ + "/pod.yaml";
  // The plain group: operator.
  EXPECT_EQ(RunAs(kNobody, {4242}, "get pods -o name").out, "pod/web-node1\n");
  EXPECT_EQ(RunAs(kNobody, {4242}, apply).code, 0);
  const Ran refused = RunAs(kNobody, {4242}, "exec web -- true");
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(
      refused.err.starts_with("Error from server (Forbidden): your role does not allow Exec"))
      << refused.err;
  EXPECT_EQ(RunAs(kNobody, {4242}, "check --repair").code, 1);
  // With the exec group: exec, no changes.
  EXPECT_EQ(RunAs(kNobody, {4242, 4243}, "exec web -- sh -c 'exit 3'").code, 3);
  EXPECT_EQ(RunAs(kNobody, {4242, 4243}, apply).code, 1);
  // A viewer sees no environment and no logs.
  EXPECT_EQ(RunAs(kNobody, {4242, 4244}, "get pod web -o yaml | grep -c secret").out, "0\n");
  EXPECT_EQ(RunAs(kNobody, {4242}, "get pod web -o yaml | grep -c secret").out, "1\n");
  EXPECT_EQ(RunAs(kNobody, {4242, 4244}, "logs web").code, 1);
  EXPECT_TRUE(Eventually([&] {
    return AuditText().find("\"method\":\"Exec\",\"decision\":\"deny\"") != std::string::npos;
  })) << AuditText();
}

TEST_F(HoldctlTest, TerminalIsRawDuringExecAndRestoredAfter) {
  int master = -1;
  int slave = -1;
  winsize size{.ws_row = 40, .ws_col = 120, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, &size), 0);
  const UniqueFd master_fd(master);
  const UniqueFd slave_fd(slave);
  termios before{};
  ASSERT_EQ(::tcgetattr(slave, &before), 0);
  const std::string socket = "--socket=" + options_.socket_path;
  const pid_t pid = ::fork();
  if (pid == 0) {
    (void)::setsid();
    (void)::ioctl(slave, TIOCSCTTY, 0);
    for (int fd = 0; fd < 3; ++fd) (void)::dup2(slave, fd);
    ::execl(program_.c_str(), "holdctl", socket.c_str(), "exec", "-it", "web", "--", "sh", nullptr);
    ::_exit(126);
  }
  std::string seen;
  const auto read_until = [&](const std::string& text) {
    return Eventually([&] {
      pollfd fd{.fd = master, .events = POLLIN, .revents = 0};
      char buffer[4096];
      while (::poll(&fd, 1, 0) > 0) {
        const ssize_t count = ::read(master, buffer, sizeof(buffer));
        if (count <= 0) break;
        seen.append(buffer, static_cast<size_t>(count));
      }
      return seen.find(text) != std::string::npos;
    });
  };
  const auto type = [&](const std::string& text) {
    ASSERT_EQ(::write(master, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  type("stty size; echo re''ady\n");
  ASSERT_TRUE(read_until("ready")) << seen;
  EXPECT_NE(seen.find("40 120"), std::string::npos) << seen;
  termios during{};
  ASSERT_EQ(::tcgetattr(slave, &during), 0);
  EXPECT_EQ(during.c_lflag & (ICANON | ECHO), 0u);
  // The window changes, and so does the program's terminal.
  size.ws_row = 50;
  ASSERT_EQ(::ioctl(master, TIOCSWINSZ, &size), 0);
  EXPECT_TRUE(Eventually([&] {
    seen.clear();
    type("stty size; echo d''one\n");
    return read_until("done") && seen.find("50 120") != std::string::npos;
  })) << seen;
  type("exit 9\n");
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 9);
  termios after{};
  ASSERT_EQ(::tcgetattr(slave, &after), 0);
  EXPECT_EQ(after.c_lflag, before.c_lflag);
  EXPECT_EQ(after.c_iflag, before.c_iflag);
}

// Lets one caller in, takes what it asks for and is gone without an answer.
class DyingAgent {
 public:
  explicit DyingAgent(const std::string& path)
      : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
  }
  enum class End : uint8_t { kClosed, kGoaway, kCancelled };
  void ServeOne(End end = End::kClosed) {
    UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    constexpr char kSettings[9] = {0, 0, 0, 4};  // an empty frame of HTTP/2
    EXPECT_EQ(::send(caller.get(), kSettings, sizeof kSettings, MSG_NOSIGNAL), 9);
    std::string asked(1024, '\0');
    while (asked.find("holdfast.v1.NodeAgent") == std::string::npos &&
           ::recv(caller.get(), asked.data(), asked.size(), 0) > 0) {
    }
    listener_.Reset();
    if (end == End::kClosed) return;
    // What a server that ends says of calls that came too late, or of one that it had not begun with. It is gone only afterwards.
    const std::string last = end == End::kGoaway ? NoStream() : Cancelled();
    EXPECT_EQ(::send(caller.get(), last.data(), last.size(), MSG_NOSIGNAL), last.size());
    caller_ = std::move(caller);
  }

 private:
  // GOAWAY: no stream was looked at.
  static std::string NoStream() { return std::string("\0\0\x08\x07", 4) + std::string(13, '\0'); }
  // HEADERS of stream 1, its last (RFC 9113 6.2, RFC 7541 6.2.1): status 200, and gRPC's status 1.
  static std::string Cancelled() {
    const std::string fields =
        "\x88\x5f\x10"
        "application/grpc\x40\x0bgrpc-status\x01"
        "1";
    return std::string("\0\0", 2) + static_cast<char>(fields.size()) +
           std::string("\x01\x05\0\0\0\x01", 6) + fields;
  }

  UniqueFd listener_;
  UniqueFd caller_;
};

TEST_F(HoldctlTest, WaitsForAnAgentThatIsBeingRestarted) {
  server_.reset();
  std::thread agent([this] {
    EXPECT_TRUE(Eventually([&] { return !ReadText(root_ + "/err").empty(); }));
    StartServer();
  });
  const Ran ran = Run("get pods -o name");
  agent.join();
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "pod/web-node1\n");
  EXPECT_EQ(ran.err, "The agent does not answer. It may be restarting: trying again\n");
}

TEST_F(HoldctlTest, AsksAgainWhatWasLeftUnansweredAndChangesNothing) {
  std::ofstream(LogPath("web-node1", "uid-web")) << "2026-11-21T07:19:31.5Z stdout F one\n";
  using End = DyingAgent::End;
  for (const auto& [command, end] :
       std::vector<std::pair<std::string, End>>{{"get pods -o name", End::kClosed},
                                                {"get pods -o name", End::kGoaway},
                                                {"get pods -o name", End::kCancelled},
                                                {"describe node", End::kClosed},
                                                {"logs web", End::kClosed},
                                                {"logs web", End::kGoaway}}) {
    const Ran wanted = Run(command);
    EXPECT_EQ(wanted.code, 0) << wanted.err;
    server_.reset();
    DyingAgent dying(options_.socket_path);
    std::thread agent([&, end = end] {
      dying.ServeOne(end);
      StartServer();
    });
    const Ran ran = Run(command);
    agent.join();
    EXPECT_EQ(ran.code, 0) << command;
    EXPECT_EQ(ran.out, wanted.out) << command;
    EXPECT_EQ(ran.err, "The agent does not answer. It may be restarting: trying again\n");
  }
}

size_t OpenSockets() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed_meanwhile;
    count += std::filesystem::read_symlink(entry.path(), closed_meanwhile)
                     .string()
                     .starts_with("socket:")
                 ? 1
                 : 0;
  }
  return count;
}

TEST_F(HoldctlTest, FollowsALogOverARestartUntilItHasShownSomething) {
  std::ofstream log(LogPath("web-node1", "uid-web"));
  Ran ran;
  const size_t before = OpenSockets();
  std::thread following([&] { ran = Run("logs web -f"); });
  EXPECT_TRUE(Eventually([&] { return OpenSockets() > before; })) << "nobody connects";
  server_.reset();
  StartServer();
  log << "2026-11-21T07:19:31.5Z stdout F one\n" << std::flush;
  EXPECT_TRUE(Eventually([&] { return ReadText(root_ + "/out") == "one\n"; }));
  server_.reset();
  following.join();
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(
      ran.err.starts_with("The agent does not answer. It may be restarting: trying again\n"
                          "error: the agent went away"))
      << ran.err;
}

TEST_F(HoldctlTest, SaysOfAChangeThatWasLeftUnansweredThatItMayBeDone) {
  server_.reset();
  DyingAgent dying(options_.socket_path);
  std::thread agent([&] { dying.ServeOne(); });
  const Ran ran = Run("image rm x");
  agent.join();
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(ran.err.starts_with("error: the agent went away")) << ran.err;
  EXPECT_NE(ran.err.find("whether it did what it was asked is not known"), std::string::npos)
      << ran.err;
}

TEST_F(HoldctlTest, SaysWhatToDoWhenNobodyAnswers) {
  server_.reset();
  const Ran ran = Run("get pods --request-timeout=300ms");
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("the agent is not running"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("systemctl start holdfastd"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace holdfast::agent
