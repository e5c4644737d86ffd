// SPDX-License-Identifier: Apache-2.0

// writer ROOT: a root directory as containerd's own packages leave it behind, and in ROOT/expected.json what they say is
// in it. writer ROOT busy: changes its database, one transaction after the other, until stdin ends.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.etcd.io/bbolt"
)

const dockerList, dockerManifest = images.MediaTypeDockerSchema2ManifestList, images.MediaTypeDockerSchema2Manifest

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// program is an executable for Linux on amd64 that prints text: write(1, text), exit(0).
func program(text string) []byte {
	code := append([]byte{0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x8d, 0x35, 16, 0, 0, 0, 0xba, byte(len(text)), 0, 0, 0,
		0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05}, text...)
	const base, head = 0x400000, 64 + 56
	size := uint64(head + len(code))
	var elf bytes.Buffer
	elf.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	for _, field := range []any{uint16(2), uint16(62), uint32(1), uint64(base + head), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000)} {
		check(binary.Write(&elf, binary.LittleEndian, field))
	}
	return append(elf.Bytes(), code...)
}

type layer struct {
	blob   []byte
	diffID digest.Digest
}

func layerOf(name string, data []byte) layer {
	var plain, packed bytes.Buffer
	archive := tar.NewWriter(&plain)
	check(archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}))
	must(archive.Write(data))
	check(archive.Close())
	writer := gzip.NewWriter(&packed)
	must(writer.Write(plain.Bytes()))
	check(writer.Close())
	return layer{packed.Bytes(), digest.FromBytes(plain.Bytes())}
}

type store struct {
	bolt *bbolt.DB
	db   *metadata.DB
	ctx  context.Context
}

func open(root, namespace string) store {
	folder := filepath.Join(root, "io.containerd.metadata.v1.bolt")
	check(os.MkdirAll(folder, 0o700))
	options := *bbolt.DefaultOptions
	options.NoFreelistSync = true // as containerd has it
	options.NoSync = true
	bolt := must(bbolt.Open(filepath.Join(folder, "meta.db"), 0o644, &options))
	blobs := must(local.NewStore(filepath.Join(root, "io.containerd.content.v1.content")))
	ctx := namespaces.WithNamespace(context.Background(), namespace)
	db := metadata.NewDB(bolt, blobs, nil)
	check(db.Init(ctx))
	return store{bolt, db, ctx}
}

func (s store) in(namespace string) store {
	s.ctx = namespaces.WithNamespace(s.ctx, namespace)
	return s
}

func (s store) write(mediaType string, data []byte) ocispec.Descriptor {
	blob := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	check(content.WriteBlob(s.ctx, s.db.ContentStore(), blob.Digest.String(), bytes.NewReader(data), blob))
	return blob
}

func (s store) writeJSON(mediaType string, value any) ocispec.Descriptor {
	return s.write(mediaType, must(json.Marshal(value)))
}

// image writes one for `platform`; of `layers` the first `kept`.
func (s store) image(mediaType, platform string, kept int, label string, layers ...layer) ocispec.Descriptor {
	config := ocispec.Image{Platform: platforms.MustParse(platform), RootFS: ocispec.RootFS{Type: "layers"},
		Config: ocispec.ImageConfig{Entrypoint: []string{"/bin/hello"}, Labels: map[string]string{"label": label}}}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: mediaType}
	configType, layerType := ocispec.MediaTypeImageConfig, ocispec.MediaTypeImageLayerGzip
	if mediaType == dockerManifest {
		configType, layerType = images.MediaTypeDockerSchema2Config, images.MediaTypeDockerSchema2LayerGzip
	}
	for i, each := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, each.diffID)
		blob := ocispec.Descriptor{MediaType: layerType, Digest: digest.FromBytes(each.blob), Size: int64(len(each.blob))}
		if i < kept {
			blob = s.write(layerType, each.blob)
		}
		manifest.Layers = append(manifest.Layers, blob)
	}
	manifest.Config = s.writeJSON(configType, config)
	return s.writeJSON(mediaType, manifest)
}

// absent is what an index says of an image that never was fetched.
func absent(mediaType, platform string) ocispec.Descriptor {
	parsed := platforms.MustParse(platform)
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(platform), Size: 500, Platform: &parsed}
}

func (s store) index(mediaType string, entries ...ocispec.Descriptor) ocispec.Descriptor {
	return s.writeJSON(mediaType, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: mediaType,
		Manifests: entries})
}

func (s store) name(name string, target ocispec.Descriptor) {
	must(metadata.NewImageStore(s.db).Create(s.ctx, images.Image{Name: name, Target: target,
		Labels: map[string]string{"io.cri-containerd.image": "managed"}}))
}

// cri gives the three names that containerd's CRI plugin gives.
func (s store) cri(repository, tag string, target ocispec.Descriptor) {
	s.name(repository+":"+tag, target)
	s.name(repository+"@"+target.Digest.String(), target)
	config := must(images.Config(s.ctx, s.db.ContentStore(), target, platforms.Only(platforms.MustParse("linux/amd64"))))
	s.name(config.Digest.String(), target)
}

func (s store) fill() {
	hello := layerOf("bin/hello", program("hello from containerd\n"))
	extra := layerOf("etc/extra", []byte("more\n"))
	amd64 := s.image(ocispec.MediaTypeImageManifest, "linux/amd64", 1, "hello", hello)
	parsed := platforms.MustParse("linux/amd64")
	amd64.Platform = &parsed
	s.cri("docker.io/library/hello", "1", s.index(ocispec.MediaTypeImageIndex,
		absent(ocispec.MediaTypeImageManifest, "linux/arm64/v8"), amd64))
	s.cri("registry.example:5000/team/shared", "2", s.image(dockerManifest, "linux/amd64", 3, "shared", hello, extra, extra))
	listed := s.image(dockerManifest, "linux/amd64", 2, "listed", hello, extra)
	listed.Platform = &parsed
	s.cri("registry.example/listed", "v1", s.index(dockerList, listed, absent(dockerManifest, "linux/s390x")))
	s.cri("registry.example/discarded", "1", s.image(ocispec.MediaTypeImageManifest, "linux/amd64", 1, "discarded", hello,
		layerOf("etc/discarded", []byte("gone\n")), layerOf("etc/too", []byte("gone, too\n"))))
	s.name("registry.example/foreign:1", s.index(ocispec.MediaTypeImageIndex,
		absent(ocispec.MediaTypeImageManifest, "linux/arm64/v8"), absent(ocispec.MediaTypeImageManifest, "linux/ppc64le")))
	pinned := s.image(ocispec.MediaTypeImageManifest, "linux/amd64", 1, "by digest", hello)
	s.name("registry.example/pinned@"+pinned.Digest.String(), pinned)
	untagged := s.image(ocispec.MediaTypeImageManifest, "linux/amd64", 1, "untagged", hello)
	s.name(must(images.Config(s.ctx, s.db.ContentStore(), untagged, platforms.All)).Digest.String(), untagged)

	// More names than a page has room for, some of them gone again.
	many := s.in("many")
	target := many.image(ocispec.MediaTypeImageManifest, "linux/amd64", 1, "many", hello)
	for i := range 330 {
		many.name(fmt.Sprintf("registry.example/many/app:%04d", i), target)
	}
	for i := 300; i < 330; i++ {
		check(metadata.NewImageStore(many.db).Delete(many.ctx, fmt.Sprintf("registry.example/many/app:%04d", i)))
	}
}

type said struct {
	Namespace, Name, Target string
	MediaType               string
	Size                    int64
	Config                  string // "": containerd cannot say
	Missing                 []string
}

// tell asks containerd what it has for linux/amd64.
func (s store) tell(namespace string) []said {
	s = s.in(namespace)
	var all []said
	platform := platforms.Only(platforms.MustParse("linux/amd64"))
	for _, image := range must(metadata.NewImageStore(s.db).List(s.ctx)) {
		each := said{Namespace: namespace, Name: image.Name, Target: image.Target.Digest.String(),
			MediaType: image.Target.MediaType, Size: image.Target.Size}
		if config, err := images.Config(s.ctx, s.db.ContentStore(), image.Target, platform); err == nil {
			each.Config = config.Digest.String()
			_, _, _, missing, err := images.Check(s.ctx, s.db.ContentStore(), image.Target, platform)
			check(err)
			for _, blob := range missing {
				each.Missing = append(each.Missing, blob.Digest.String())
			}
		}
		all = append(all, each)
	}
	return all
}

func (s store) busy() {
	s = s.in("busy")
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	target := absent(ocispec.MediaTypeImageManifest, "linux/amd64")
	for i := 0; ; i++ {
		select {
		case <-done:
			fmt.Println(i, "transactions")
			return
		case <-time.After(time.Millisecond): // a disk that is fast
		}
		name := fmt.Sprintf("registry.example/busy:%d", i%100)
		if i%200 < 100 {
			s.name(name, target)
		} else {
			check(metadata.NewImageStore(s.db).Delete(s.ctx, name))
		}
	}
}

func main() {
	s := open(os.Args[1], "k8s.io")
	if len(os.Args) > 2 {
		s.busy()
	} else {
		s.fill()
		expected := append(s.tell("k8s.io"), s.tell("many")...)
		check(os.WriteFile(filepath.Join(os.Args[1], "expected.json"), must(json.MarshalIndent(expected, "", " ")), 0o644))
	}
	check(s.bolt.Close())
}
