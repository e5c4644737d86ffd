// SPDX-License-Identifier: Apache-2.0
// OCI layouts and docker-archives, honest and otherwise; export, also to a real peer.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "tests/support/text_file.h"
#include "tests/system/runtime/image/store/archive_builder.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::runtime {
namespace {

using test::BuildTar;
using test::Dir;
using test::File;
using test::Link;
using test::TarPacking;
using test_support::ReadText;

std::string Layer(const std::string& name, const std::string& content) {
  return BuildTar({Dir("etc"), File("etc/" + name, content)});
}

TEST_F(StoreTest, OciLayoutAsTarPlainAndPacked) {
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({Layer("a", "1"), Layer("b", "2")});
  const std::string index = layout.Index(DescriptorText(
      kOciManifestType, manifest, layout.Named("registry.example:5000/team/app:v1")));
  for (const TarPacking packing : {TarPacking::kPlain, TarPacking::kGzip, TarPacking::kZstd}) {
    auto added = Import(layout.Tar(index, packing));
    ASSERT_TRUE(added) << added.error().message();
  }
  auto image = store_->Get("registry.example:5000/team/app:v1");
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image->repo_digests,
            std::vector<std::string>{"registry.example:5000/team/app@" + DigestOf(manifest).value});
  EXPECT_EQ(image->id, DigestOf(ConfigText({Layer("a", "1"), Layer("b", "2")})));
  EXPECT_EQ(image->created.since_epoch, std::chrono::seconds(1714979289));
  EXPECT_EQ(image->config.exposed_ports, std::vector<std::string>{"80/tcp"});
  EXPECT_EQ(image->config.labels.at("a"), "b");
  ASSERT_EQ(image->layers.size(), 2u);
  EXPECT_EQ(ReadText(image->layers[0] + "/etc/a"), "1") << "lowest first";
  EXPECT_EQ(ReadText(image->layers[1] + "/etc/b"), "2");
}

TEST_F(StoreTest, ALayoutMayLackLayersThatAreHere) {
  const std::string base = Layer("base", "1"), more = Layer("more", "2");
  LayoutBuilder first, second;
  const std::string one = first.AddImage({base});
  const std::string two = second.AddImage({base, more});
  const auto index = [](const std::string& manifest, const std::string& name) {
    return LayoutBuilder::Index(
        DescriptorText(kOciManifestType, manifest, LayoutBuilder::Named(name)));
  };
  std::vector<test::TarMember> members = second.Members(index(two, "r.io/two:1"));
  std::erase_if(members, [&](const test::TarMember& member) {
    return member.name == "blobs/sha256/" + HexOf(DigestOf(base));
  });
  const std::string without = BuildTar(members);
  const auto lacking = Import(without);
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code(), Code::kNotFound) << lacking.error().message();

  ASSERT_TRUE(Import(first.Tar(index(one, "r.io/one:1"))));
  const auto added = Import(without);
  ASSERT_TRUE(added) << added.error().message();
  ASSERT_TRUE(store_->Remove("r.io/one:1"));
  const auto image = store_->Get("r.io/two:1");
  ASSERT_TRUE(image) << image.error().message();
  ASSERT_EQ(image->layers.size(), 2u);
  EXPECT_EQ(ReadText(image->layers[0] + "/etc/base"), "1");
  EXPECT_EQ(image->size_bytes,
            base.size() + more.size() + two.size() + ConfigText({base, more}).size());
  // The size that is claimed must be the blob's.
  LayoutBuilder liar;
  const std::string config = liar.Add(ConfigText({base}));
  std::string layer = DescriptorText(kOciLayerType, base);
  layer.replace(layer.find("\"size\":") + 7, std::string::npos, "1}");
  const std::string manifest = liar.Add(StrCat(
      "{\"schemaVersion\":2,\"mediaType\":\"", kOciManifestType,
      "\",\"config\":", DescriptorText(kOciConfigType, config), ",\"layers\":[", layer, "]}"));
  const auto lied = Import(liar.Tar(index(manifest, "r.io/liar:1")));
  ASSERT_FALSE(lied);
  EXPECT_NE(lied.error().message().find("does not match its digest or size"), std::string::npos);
}

TEST_F(StoreTest, OciLayoutAsDirectory) {
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({Layer("a", "1")});
  const std::string dir = path_ + "/layout";
  for (const auto& member : layout.Members(
           layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("app:1"))))) {
    std::filesystem::create_directories(
        std::filesystem::path(dir + "/" + member.name).parent_path());
    std::ofstream(dir + "/" + member.name) << member.content;
  }
  auto fd = sys::OpenDir(dir);
  auto added = store_->ImportDirectory(fd->get(), {});
  ASSERT_TRUE(added) << added.error().message();
  EXPECT_TRUE(store_->Get("app:1"));
  // A blob that is a FIFO, or a symbolic link that leaves the directory.
  const std::string blob = dir + "/blobs/sha256/" + HexOf(DigestOf(manifest));
  ASSERT_TRUE(store_->Remove("app:1"));
  std::filesystem::rename(blob, path_ + "/outside");
  std::filesystem::create_symlink(path_ + "/outside", blob);
  EXPECT_FALSE(store_->ImportDirectory(fd->get(), {}));
  std::filesystem::remove(blob);
  ASSERT_EQ(::mkfifo(blob.c_str(), 0600), 0);
  EXPECT_FALSE(store_->ImportDirectory(fd->get(), {}));
  EXPECT_TRUE(store_->List()->empty());
}

TEST_F(StoreTest, ChoosesThePlatformInANestedIndex) {
  LayoutBuilder layout;
  const std::string wrong = layout.AddImage({Layer("a", "wrong")});
  const std::string right = layout.AddImage({Layer("a", "right")});
  const std::string inner = layout.Add(layout.Index(
      DescriptorText(kOciManifestType, wrong,
                     ",\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}") +
      "," +
      DescriptorText(kOciManifestType, right,
                     StrCat(",\"platform\":{\"os\":\"linux\",\"architecture\":\"", kHere, "\"}"))));
  auto added =
      Import(layout.Tar(layout.Index(DescriptorText(kOciIndexType, inner, layout.Named("m:1")))));
  ASSERT_TRUE(added) << added.error().message();
  const Image image = store_->Get("m:1").value();
  EXPECT_EQ(ReadText(image.layers[0] + "/etc/a"), "right");
  EXPECT_EQ(image.repo_digests[0], "docker.io/library/m@" + DigestOf(inner).value);
  EXPECT_TRUE(store_->Get(image.repo_digests[0])) << "by the index's digest";
  EXPECT_TRUE(store_->Get("m@" + DigestOf(right).value)) << "and by the manifest's";

  const std::string none = layout.Add(layout.Index(DescriptorText(
      kOciManifestType, wrong, ",\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}")));
  auto refused = Import(layout.Tar(layout.Index(DescriptorText(kOciIndexType, none))));
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message().starts_with("no match for platform in manifest"))
      << refused.error().message();
}

TEST_F(StoreTest, DockerArchiveWithSharedAndLinkedLayers) {
  const std::string base = Layer("a", "1");
  const std::string top = Layer("b", "2");
  const std::string one = ConfigText({base}, "/one");
  const std::string two = ConfigText({base, top}, "/two");
  auto added = Import(BuildTar({Dir("l1"), File("l1/layer.tar", base), Dir("l2"),
                                test::Link("l2/layer.tar", "../l1/layer.tar"), File("top.tar", top),
                                File("1.json", one), File("2.json", two),
                                File("manifest.json",
                                     "[{\"Config\":\"1.json\",\"RepoTags\":[\"one:1\",\"uno:1\"],"
                                     "\"Layers\":[\"l1/layer.tar\"]},"
                                     "{\"Config\":\"2.json\",\"RepoTags\":[\"two:1\"],\"Layers\":["
                                     "\"l2/layer.tar\",\"top.tar\"]}]")}));
  ASSERT_TRUE(added) << added.error().message();
  ASSERT_EQ(added->size(), 2u);
  EXPECT_EQ(store_->Get("one:1")->id, DigestOf(one));
  EXPECT_EQ(store_->Get("uno:1")->id, DigestOf(one));
  EXPECT_EQ(store_->Get("one:1")->layers[0], store_->Get("two:1")->layers[0]);
  EXPECT_EQ(store_->Get("one:1")->repo_tags.size(), 2u);
  ASSERT_TRUE(store_->Remove("two:1"));
  EXPECT_EQ(Names("layers").size(), 1u) << "the shared layer stays";
}

// Each kind of archive alone is let in by a policy that rejects all others.
TEST_F(StoreTest, APolicyDecidesWhatMayBeImported) {
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({Layer("a", "1")});
  const std::string index =
      layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("layout:1")));
  const std::string layer = Layer("b", "2"), config = ConfigText({layer});
  const std::map<std::string, std::string> archives = {
      {"oci-archive", layout.Tar(index)},
      {"docker-archive",
       BuildTar({File("l.tar", layer), File("c.json", config),
                 File("manifest.json",
                      R"([{"Config":"c.json","RepoTags":["docker:1"],"Layers":["l.tar"]}])")})},
      {"tarball", layer}};
  for (const auto& [accepted, ignored] : archives) {
    policy_ = *SignaturePolicy::Parse(
        StrCat(R"({"default": [{"type": "reject"}], "transports": {")", accepted,
               R"(": {"": [{"type": "insecureAcceptAnything"}]}}})"));
    Reopen();
    for (const auto& [transport, archive] : archives) {
      const auto added = Import(archive);
      ASSERT_EQ(added.has_value(), transport == accepted) << transport << " with " << accepted;
      if (added) {
        ASSERT_TRUE(store_->Remove(added->front().id.value));
        continue;
      }
      EXPECT_EQ(added.error().code(), Code::kPermissionDenied);
      EXPECT_EQ(added.error().message(), StrCat("Source image rejected: Running image from ",
                                                transport, " is rejected by policy."));
      EXPECT_TRUE(Names("ingest").empty());
    }
  }
}

TEST_F(StoreTest, AnImportTellsTheNamesThatItGave) {
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({Layer("a", "1")});
  const std::string archive = layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest)));
  ImportOptions options;
  for (const char* name : {"zebra:1", "ape:1"}) {
    options.reference = name;
    auto added = Import(archive, options);
    ASSERT_TRUE(added) << added.error().message();
    ASSERT_EQ(added->size(), 1u);
    EXPECT_EQ(added->at(0).repo_tags,
              std::vector<std::string>{"docker.io/library/" + options.reference});
  }
  EXPECT_EQ(store_->Get("ape:1")->repo_tags.size(), 2u) << "the same image";
}

TEST_F(StoreTest, AnArchiveOfSeveralImagesTellsEachWithItsNames) {
  LayoutBuilder layout;
  const auto named = [&](const std::string& manifest, const char* name) {
    return DescriptorText(kOciManifestType, manifest, layout.Named(name));
  };
  const std::string one = layout.AddImage({Layer("a", "1")});
  const std::string two = layout.AddImage({Layer("b", "2")});
  const auto added = Import(layout.Tar(layout.Index(StrCat(
      named(one, "multi/a:1"), ",", named(two, "multi/b:1"), ",", named(two, "multi/b:2")))));
  ASSERT_TRUE(added) << added.error().message();
  std::multiset<std::string> told;
  for (const auto& image : *added) told.insert(image.repo_tags.begin(), image.repo_tags.end());
  EXPECT_EQ(told, (std::multiset<std::string>{"docker.io/multi/a:1", "docker.io/multi/b:1",
                                              "docker.io/multi/b:2"}));
}

TEST_F(StoreTest, AGivenNameReplacesTheArchivesOwn) {
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({Layer("a", "1")});
  ImportOptions options;
  options.reference = "mine";
  ASSERT_TRUE(Import(
      layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("latest")))),
      options));
  EXPECT_EQ(store_->Get("mine")->repo_tags,
            std::vector<std::string>{"docker.io/library/mine:latest"});
  options.reference = "Bad";
  EXPECT_FALSE(
      Import(layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest))), options));
  options.reference = "mine";
  options.config.emplace();
  auto refused =
      Import(layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest))), options);
  ASSERT_FALSE(refused) << "an archive brings its own config";
}

struct BadArchive {
  const char* what;
  std::string tar;
};

std::vector<BadArchive> BadArchives() {
  const std::string layer = Layer("a", "1");
  std::vector<BadArchive> bad;
  const auto add = [&](const char* what, LayoutBuilder& b, const std::string& entry) {
    bad.push_back({what, b.Tar(b.Index(entry))});
  };
  {
    LayoutBuilder b;
    const std::string m = b.AddImage({layer}, "/bin/sh", "application/x-unknown.tar");
    add("unknown layer media type", b, DescriptorText(kOciManifestType, m));
  }
  {
    LayoutBuilder b;
    const std::string m = b.AddImage({layer});
    add("unknown manifest media type", b, DescriptorText("application/x-unknown", m));
    add("manifest announced as an index", b, DescriptorText(kOciIndexType, m));
    std::string wrong = DescriptorText(kOciManifestType, m);
    wrong.replace(wrong.find("\"size\":"), 8, "\"size\":9");
    add("wrong size", b, wrong);
    for (const std::string digest :
         {"sha256:../../../../etc/passwd", "sha256:ABC", "md5:0123",
          "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg"}) {
      add("bad digest string", b,
          StrCat("{\"mediaType\":\"", kOciManifestType, "\",\"digest\":\"", digest,
                 "\",\"size\":1}"));
    }
    add("no media type", b,
        StrCat("{\"digest\":\"", DigestOf(m).value, "\",\"size\":", m.size(), "}"));
  }
  {
    LayoutBuilder b;
    const std::string config = b.Add(ConfigText({layer}));
    b.Add(layer);
    const std::string both =
        b.Add(StrCat("{\"schemaVersion\":2,\"config\":", DescriptorText(kOciConfigType, config),
                     ",\"layers\":[", DescriptorText(kOciLayerType, layer), "],\"manifests\":[]}"));
    add("manifest and index at once", b, DescriptorText(kOciManifestType, both));
  }
  {
    LayoutBuilder b;
    const std::string config = b.Add(ConfigText({Layer("a", "another")}));
    b.Add(layer);
    const std::string m =
        b.Add(StrCat("{\"schemaVersion\":2,\"config\":", DescriptorText(kOciConfigType, config),
                     ",\"layers\":[", DescriptorText(kOciLayerType, layer), "]}"));
    add("diff_id of another layer", b, DescriptorText(kOciManifestType, m));
  }
  {
    LayoutBuilder b;
    const std::string config = b.Add(ConfigText({layer, layer}));
    b.Add(layer);
    const std::string m =
        b.Add(StrCat("{\"schemaVersion\":2,\"config\":", DescriptorText(kOciConfigType, config),
                     ",\"layers\":[", DescriptorText(kOciLayerType, layer), "]}"));
    add("layers and diff_ids of different number", b, DescriptorText(kOciManifestType, m));
  }
  bad.push_back({"index.json is no JSON", LayoutBuilder().Tar("{\"schemaVersion\":2,")});
  bad.push_back({"index.json nested 100000 deep", LayoutBuilder().Tar(std::string(100'000, '['))});
  bad.push_back({"index.json empty", LayoutBuilder().Tar("")});
  bad.push_back({"schema 1", LayoutBuilder().Tar("{\"schemaVersion\":1,\"fsLayers\":[]}")});
  bad.push_back({"no image", LayoutBuilder().Tar("{\"schemaVersion\":2,\"manifests\":[]}")});
  bad.push_back(
      {"member twice", BuildTar({File("manifest.json", "[]"), File("./manifest.json", "[]")})});
  bad.push_back({"climbing member", BuildTar({File("manifest.json", "[]"), File("../x", "y")})});
  bad.push_back({"device in the archive",
                 BuildTar({File("manifest.json", "[]"),
                           {.name = "d", .mode = S_IFCHR | 0600, .device = makedev(1, 3)}})});
  bad.push_back({"missing layer", BuildTar({File("c.json", ConfigText({layer})),
                                            File("manifest.json",
                                                 "[{\"Config\":\"c.json\",\"RepoTags\":[],"
                                                 "\"Layers\":[\"../../etc/passwd\"]}]")})});
  bad.push_back(
      {"looping links", BuildTar({File("c.json", ConfigText({layer})), test::Link("l", "l"),
                                  File("manifest.json",
                                       "[{\"Config\":\"c.json\",\"RepoTags\":[],"
                                       "\"Layers\":[\"l\"]}]")})});
  return bad;
}

TEST_F(StoreTest, BadArchivesAreRefusedAndChangeNothing) {
  for (const BadArchive& bad : BadArchives()) {
    auto added = Import(bad.tar);
    ASSERT_FALSE(added) << bad.what;
    EXPECT_TRUE(added.error().code() == Code::kInvalidArgument ||
                added.error().code() == Code::kNotFound ||
                added.error().code() == Code::kUnsupported)
        << bad.what << ": " << added.error().message();
    EXPECT_TRUE(store_->List()->empty()) << bad.what;
    EXPECT_TRUE(Names("blobs/sha256").empty()) << bad.what;
    EXPECT_TRUE(Names("layers").empty()) << bad.what;
    EXPECT_TRUE(Names("ingest").empty()) << bad.what;
  }
}

TEST_F(StoreTest, LimitsStopBombs) {
  limits_.unpacked_bytes = 1 << 20;
  limits_.document_bytes = 4096;
  limits_.layers = 2;
  limits_.archive_members = 8;
  Reopen();
  // 64 MiB of zeros in a few KiB.
  const std::string bomb =
      BuildTar({File("zeros", std::string(64 << 20, '\0'))}, TarPacking::kGzip);
  ASSERT_LT(bomb.size(), 1u << 20);
  EXPECT_EQ(Import(bomb).error().code(), Code::kResourceExhausted);
  LayoutBuilder many;
  const std::string m = many.AddImage({Layer("a", "1"), Layer("b", "2"), Layer("c", "3")});
  EXPECT_EQ(Import(many.Tar(many.Index(DescriptorText(kOciManifestType, m)))).error().code(),
            Code::kResourceExhausted);
  LayoutBuilder large;
  const std::string index = large.Index("") + std::string(5000, ' ');
  EXPECT_EQ(Import(large.Tar(index)).error().code(), Code::kResourceExhausted);
  std::vector<test::TarMember> files = {File("manifest.json", "[]")};
  for (int i = 0; i < 10; ++i) files.push_back(File("f" + std::to_string(i), ""));
  EXPECT_EQ(Import(BuildTar(files)).error().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Names("ingest").empty());
}

TEST_F(StoreTest, WhiteoutsAndBorrowedModesThroughARealOverlay) {
  const std::string lower =
      BuildTar({Dir("./", 0555), Dir("tmp", 01777), Dir("data"), File("data/old", "x"), Dir("opt"),
                File("opt/gone", "x"), File("opt/stays", "y")});
  // Members below "tmp" and "opt" without members for these directories themselves.
  const std::string upper = BuildTar({File("data/.wh..wh..opq", ""), File("data/new", "z"),
                                      File("tmp/file", "t"), File("opt/.wh.gone", "")});
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({lower, upper});
  ASSERT_TRUE(Import(
      layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("w:1"))))));
  const Image image = store_->Get("w:1").value();
  const std::string merged = path_ + "/merged";
  std::filesystem::create_directory(merged);
  const std::string options = StrCat("lowerdir=", image.layers[1], ":", image.layers[0]);
  ASSERT_EQ(::mount("overlay", merged.c_str(), "overlay", MS_RDONLY, options.c_str()), 0);
  EXPECT_FALSE(std::filesystem::exists(merged + "/data/old"));
  EXPECT_EQ(ReadText(merged + "/data/new"), "z");
  EXPECT_FALSE(std::filesystem::exists(merged + "/opt/gone"));
  EXPECT_EQ(ReadText(merged + "/opt/stays"), "y");
  struct stat st{};
  ::stat((merged + "/tmp").c_str(), &st);
  EXPECT_EQ(st.st_mode & 07777u, 01777u) << "a directory only passed through keeps the lower mode";
  ::stat(merged.c_str(), &st);
  EXPECT_EQ(st.st_mode & 07777u, 0555u);
  EXPECT_EQ(::umount(merged.c_str()), 0);
}

TEST_F(StoreTest, DirectoriesThatALayerPassesThroughAreAsTheyShowBelow) {
  test::TarMember kept = Dir("kept", 0750);
  kept.uid = 1000;
  kept.gid = 2'000'000;
  kept.mtime = 1'500'000'000;
  kept.xattrs = {{"user.note", "mine"}};
  const std::string first =
      BuildTar({kept, Dir("hidden", 0700), Dir("hidden/below", 0711), Dir("real", 0700),
                Dir("real/in", 0711), Dir("again", 0700), Dir("again/below", 0711)});
  const std::string second =
      BuildTar({Dir("hidden", 0705), File("hidden/.wh..wh..opq", ""), Link("link", "real")});
  const std::string third =
      BuildTar({File("kept/a", ""), File("hidden/below/a", ""), File("link/in/a", ""),
                File(".wh.again", ""), File("again/below/a", "")});
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({first, second, third});
  ASSERT_TRUE(Import(
      layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("w:1"))))));
  const std::string top = store_->Get("w:1").value().layers[2] + "/";
  struct stat st{};
  ASSERT_EQ(::stat((top + "kept").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777u, 0750u);
  EXPECT_EQ(st.st_uid, 1000u);
  EXPECT_EQ(st.st_gid, 2'000'000u);
  EXPECT_EQ(st.st_mtim.tv_sec, 1'500'000'000);
  char value[8] = {};
  EXPECT_EQ(::getxattr((top + "kept").c_str(), "user.note", value, sizeof value), 4);
  const auto mode = [&](const char* path) {
    struct stat one{};
    EXPECT_EQ(::stat((top + path).c_str(), &one), 0) << path;
    return one.st_mode & 07777u;
  };
  EXPECT_EQ(mode("hidden"), 0705u);
  EXPECT_EQ(mode("hidden/below"), 0755u) << "what an opaque directory hides lends nothing";
  EXPECT_EQ(mode("link/in"), 0755u) << "what is behind a lower link lends nothing";
  EXPECT_EQ(mode("again"), 0755u);
  EXPECT_EQ(mode("again/below"), 0755u);
}

TEST_F(StoreTest, FortyLayersStack) {
  std::vector<std::string> layers;
  for (int i = 0; i < 40; ++i) {
    layers.push_back(
        BuildTar({Dir("l"), File("l/" + std::to_string(i), "x"), File("top", std::to_string(i))}));
  }
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage(layers);
  ASSERT_TRUE(Import(layout.Tar(
      layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("deep:1"))))));
  const Image image = store_->Get("deep:1").value();
  ASSERT_EQ(image.layers.size(), 40u);
  // mount(2)'s one page is enough when the names are relative, whatever the store's path is.
  std::string options = "lowerdir=";
  for (auto layer = image.layers.rbegin(); layer != image.layers.rend(); ++layer) {
    options +=
        (options.ends_with('=') ? "" : ":") + std::filesystem::path(*layer).filename().string();
  }
  ASSERT_LT(options.size(), 4096u);
  const std::string merged = path_ + "/merged";
  std::filesystem::create_directory(merged);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(path_ + "/images/layers");
  const int status = ::mount("overlay", merged.c_str(), "overlay", MS_RDONLY, options.c_str());
  std::filesystem::current_path(before);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(ReadText(merged + "/top"), "39");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(merged + "/l"), {}), 40);
  EXPECT_EQ(::umount(merged.c_str()), 0);
}

std::string ExportToFile(DiskImageStore& store, const std::string& reference,
                         const std::string& path) {
  auto fd = sys::OpenAt(AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  auto done = store.Export(reference, fd->get());
  EXPECT_TRUE(done) << done.error().message();
  return ReadText(path);
}

TEST_F(StoreTest, ExportComesBackTheSame) {
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({Layer("a", "1"), Layer("b", "2")});
  ASSERT_TRUE(Import(
      layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("app:1"))))));
  const Image before = store_->Get("app:1").value();
  const std::string tar = ExportToFile(*store_, "app:1", path_ + "/out.tar");
  ASSERT_TRUE(store_->Remove("app:1"));
  auto added = Import(tar);
  ASSERT_TRUE(added) << added.error().message();
  const Image after = store_->Get("app:1").value();
  EXPECT_EQ(after.id, before.id);
  EXPECT_EQ(after.repo_digests, before.repo_digests);
  EXPECT_EQ(after.layers, before.layers);
}

TEST_F(StoreTest, SkopeoReadsWhatWeExportAndWeReadWhatItWrites) {
  if (::system("command -v skopeo > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "skopeo is not installed";
  LayoutBuilder layout;
  const std::string manifest = layout.AddImage({Layer("a", "1"), Layer("b", "2")});
  ASSERT_TRUE(Import(
      layout.Tar(layout.Index(DescriptorText(kOciManifestType, manifest, layout.Named("app:1"))))));
  const Digest id = store_->Get("app:1")->id;
  (void)ExportToFile(*store_, "app:1", path_ + "/out.tar");
  const std::string skopeo = "skopeo --insecure-policy --tmpdir " + path_ + " ";
  ASSERT_EQ(::system((skopeo + "inspect --config oci-archive:" + path_ + "/out.tar > " + path_ +
                      "/config")
                         .c_str()),
            0);
  EXPECT_NE(ReadText(path_ + "/config").find("/bin/sh"), std::string::npos);
  for (const std::string& target : {"docker-archive:" + path_ + "/docker.tar:app:2",
                                    "oci-archive:" + path_ + "/oci.tar:app:3"}) {
    ASSERT_EQ(::system((skopeo + "copy -q oci-archive:" + path_ + "/out.tar " + target).c_str()),
              0);
  }
  ASSERT_EQ(::system((skopeo + "copy -q docker-archive:" + path_ +
                      "/out.tar docker-archive:" + path_ + "/again.tar:x:1")
                         .c_str()),
            0)
      << "also as a docker-archive";
  for (const char* file : {"docker.tar", "oci.tar", "again.tar"}) {
    auto added = Import(ReadText(path_ + "/" + file));
    ASSERT_TRUE(added) << file << ": " << added.error().message();
  }
  EXPECT_EQ(store_->Get("app:2")->layers, store_->Get("app:1")->layers);
  EXPECT_EQ(store_->Get("app:1")->id, id);
}

}  // namespace
}  // namespace holdfast::runtime
