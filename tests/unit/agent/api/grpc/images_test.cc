// SPDX-License-Identifier: Apache-2.0
// Images in, out and away, and what a broken import leaves: nothing.
#include <array>
#include <memory>
#include <string>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;

using ImagesTest = ServerFixture;

TEST_F(ImagesTest, ImportsExportsAndRemovesImages) {
  const std::string archive = std::string(3'000'000, 'a') + "end";
  grpc::ClientContext context;
  v1::ImportImageResponse imported;
  const auto writer = stub_->ImportImage(&context, &imported);
  v1::ImportImageRequest request;
  request.mutable_options()->set_reference("app:1");
  request.mutable_options()->mutable_config()->add_cmd("run");
  ASSERT_TRUE(writer->Write(request));
  for (size_t at = 0; at < archive.size(); at += 500'000) {
    request.set_data(archive.substr(at, 500'000));
    ASSERT_TRUE(writer->Write(request));
  }
  request.set_end(true);
  ASSERT_TRUE(writer->Write(request));
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  ASSERT_EQ(imported.images_size(), 1);
  EXPECT_EQ(imported.images(0).config().cmd(0), "run");
  EXPECT_EQ(*images_.Content("app:1"), archive);

  grpc::ClientContext exporting;
  v1::ExportImageRequest wanted;
  wanted.set_reference("app:1");
  const auto reader = stub_->ExportImage(&exporting, wanted);
  std::string exported;
  v1::ExportImageResponse chunk;
  while (reader->Read(&chunk)) exported += chunk.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(exported, archive);

  grpc::ClientContext removing;
  v1::RemoveImageRequest remove;
  remove.set_reference("app:1");
  v1::RemoveImageResponse removed;
  EXPECT_TRUE(stub_->RemoveImage(&removing, remove, &removed).ok());
  const std::string audit = AuditText();
  EXPECT_NE(audit.find("\"method\":\"RemoveImage\",\"target\":\"app:1\""), std::string::npos)
      << audit;
  EXPECT_NE(audit.find("\"method\":\"ImportImage\""), std::string::npos);
}

TEST_F(ImagesTest, ImportThatIsCutOffChangesNothing) {
  for (const bool cancel : {true, false}) {
    grpc::ClientContext context;
    v1::ImportImageResponse imported;
    const auto writer = stub_->ImportImage(&context, &imported);
    v1::ImportImageRequest request;
    request.mutable_options()->set_reference("cut:1");
    writer->Write(request);
    request.set_data("half an archive");
    writer->Write(request);
    if (cancel) {
      context.TryCancel();
    } else {
      writer->WritesDone();  // without `end`
    }
    EXPECT_FALSE(writer->Finish().ok());
  }
  // A caller that went away before its first message was read began nothing.
  const auto count = [this](const std::string& stage) {
    const std::string audit = AuditText();
    size_t found = 0;
    for (size_t at = audit.find(stage); at != std::string::npos; at = audit.find(stage, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_GE(count("\"stage\":\"begin\""), 1u);
  EXPECT_TRUE(
      Eventually([&] { return count("\"stage\":\"begin\"") == count("\"stage\":\"end\""); }));
  EXPECT_FALSE(images_.Content("cut:1").has_value());
}

TEST_F(ImagesTest, FourTransfersAtOnceAndNoMore) {
  struct Import {
    grpc::ClientContext context;
    v1::ImportImageResponse imported;
    std::unique_ptr<grpc::ClientWriter<v1::ImportImageRequest>> writer;
  };
  const auto begin = [this](Import& import, int number) {
    import.writer = stub_->ImportImage(&import.context, &import.imported);
    v1::ImportImageRequest request;
    request.mutable_options()->set_reference("app:" + std::to_string(number));
    import.writer->Write(request);
  };
  const auto begun = [this] {
    const std::string audit = AuditText();
    int count = 0;
    for (size_t at = 0; (at = audit.find("\"stage\":\"begin\"", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  };
  std::array<Import, 4> imports;
  for (int i = 0; i < 4; ++i) begin(imports[static_cast<size_t>(i)], i);
  ASSERT_TRUE(Eventually([&] { return begun() == 4; }));
  Import refused;
  begin(refused, 4);
  EXPECT_EQ(refused.writer->Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  // One that ends makes room.
  imports[0].context.TryCancel();
  EXPECT_FALSE(imports[0].writer->Finish().ok());
  EXPECT_TRUE(Eventually([&] {
    Import next;
    begin(next, 5);
    v1::ImportImageRequest request;
    request.set_data("all");
    next.writer->Write(request);
    request.set_end(true);
    next.writer->Write(request);
    next.writer->WritesDone();
    return next.writer->Finish().ok();
  }));
  for (Import& import : imports) import.context.TryCancel();
  for (size_t i = 1; i < imports.size(); ++i) EXPECT_FALSE(imports[i].writer->Finish().ok());
}

TEST_F(ImagesTest, ABadArchiveEndsTheImportWhileItIsStillBeingSent) {
  grpc::ClientContext context;
  v1::ImportImageResponse imported;
  const auto writer = stub_->ImportImage(&context, &imported);
  v1::ImportImageRequest request;
  request.mutable_options()->set_reference("x");
  writer->Write(request);
  request.set_data("bad archive");
  writer->Write(request);
  request.set_end(true);
  writer->Write(request);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace holdfast::agent
