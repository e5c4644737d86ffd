// SPDX-License-Identifier: Apache-2.0

// A storage plugin for tests: directories below one folder, staged and published by bind mounts, volumes of a pod's
// own in memory, and block devices: files of 1 MiB below the folder, staged as loop devices. It speaks by the specification's own generated code and registers by a kubelet's, so that ours meets both.
// What it is asked it prints, a line a call. Where a file hang-CALL is in its folder it does not answer that call.
//
//	csi_driver NAME NODE FOLDER ROOT: serves ROOT/plugins/NAME/csi.sock, registers in ROOT/plugins_registry
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnsafeRegistrationServer
	name, node, folder, socket string
	mutex                      sync.Mutex
}

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.name, Endpoint: d.socket,
		SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	fmt.Println("registered", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "id-of-" + d.node, MaxVolumesPerNode: 12,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{"topology." + d.name + "/node": d.node}}}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, can := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME} {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: can}}})
	}
	return answer, nil
}

func (d *driver) NodeGetVolumeStats(_ context.Context, r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if is, err := mounted(r.GetVolumePath()); !is || err != nil {
		return nil, status.Error(codes.NotFound, "nothing is mounted at "+r.GetVolumePath())
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: 4096, Available: 4000, Used: 96},
		{Unit: csi.VolumeUsage_INODES, Total: 12, Available: 10, Used: 2}}}, nil
}

func (d *driver) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetStagingTargetPath() == "" || r.GetVolumeCapability().GetAccessType() == nil {
		return nil, status.Error(codes.InvalidArgument, "incomplete")
	}
	if r.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, d.attach(r.GetVolumeId(), r.GetStagingTargetPath())
	}
	data := filepath.Join(d.folder, "data", r.GetVolumeId())
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, bind(data, r.GetStagingTargetPath())
}

func (d *driver) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := detach(r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, unmount(r.GetStagingTargetPath())
}

func (d *driver) NodePublishVolume(ctx context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if r.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodePublishVolumeResponse{}, publishDevice(r.GetStagingTargetPath(), r.GetTargetPath())
	}
	if err := os.MkdirAll(r.GetTargetPath(), 0o755); err != nil {
		return nil, err
	}
	if r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] == "true" {
		is, err := mounted(r.GetTargetPath())
		if err == nil && !is {
			err = unix.Mount("own", r.GetTargetPath(), "tmpfs", 0, "size=1m")
		}
		for file, key := range map[string]string{"pod": "pod.name", "tokens": "serviceAccount.tokens"} {
			if err == nil {
				text := r.GetVolumeContext()["csi.storage.k8s.io/"+key]
				err = os.WriteFile(filepath.Join(r.GetTargetPath(), file), []byte(text), 0o644)
			}
		}
		return &csi.NodePublishVolumeResponse{}, err
	}
	return &csi.NodePublishVolumeResponse{}, bind(r.GetStagingTargetPath(), r.GetTargetPath())
}

func (d *driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if is, err := mounted(r.GetVolumePath()); !is || err != nil {
		return nil, status.Error(codes.NotFound, "nothing is mounted at "+r.GetVolumePath())
	}
	size := r.GetCapacityRange().GetRequiredBytes()
	if size > 1<<40 {
		return nil, status.Error(codes.OutOfRange, "no disk is as large")
	}
	if r.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, d.grow(r.GetVolumeId(), r.GetVolumePath(), size)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size},
		os.WriteFile(filepath.Join(r.GetVolumePath(), "size"), []byte(fmt.Sprint(size)), 0o644)
}

func (d *driver) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unmount(r.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := os.Remove(r.GetTargetPath()); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// attach makes the volume's file a loop device, whose name is in the staging folder's file "device".
func (d *driver) attach(volume, staging string) error {
	device := filepath.Join(staging, "device")
	if _, err := os.Stat(device); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(d.folder, "data"), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(d.folder, "data", volume+".img"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return err
	} else if info.Size() == 0 {
		if err := file.Truncate(1 << 20); err != nil {
			return err
		}
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for tries := 0; tries < 100; tries++ { // somebody else may take the one that was free
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return err
		}
		name := fmt.Sprint("/dev/loop", number)
		loop, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		err = unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_FD, int(file.Fd()))
		loop.Close()
		if err == nil {
			return os.WriteFile(device, []byte(name), 0o644)
		}
		if err != unix.EBUSY {
			return err
		}
	}
	return status.Error(codes.ResourceExhausted, "no free loop device")
}

// detach is strict: a device that somebody has open stays, and that is an error.
func detach(staging string) error {
	name, err := os.ReadFile(filepath.Join(staging, "device"))
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	loop, err := os.OpenFile(string(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_CLR_FD, 0)
	loop.Close()
	if err != nil && err != unix.ENXIO {
		return err
	}
	for tries := 0; tries < 50; tries++ {
		if _, err := os.Stat("/sys/block/" + filepath.Base(string(name)) + "/loop/backing_file"); err != nil {
			return os.Remove(filepath.Join(staging, "device"))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return status.Error(codes.FailedPrecondition, string(name)+" is still open")
}

func publishDevice(staging, target string) error {
	name, err := os.ReadFile(filepath.Join(staging, "device"))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	file.Close()
	return bind(string(name), target)
}

func (d *driver) grow(volume, device string, size int64) error {
	if err := os.Truncate(filepath.Join(d.folder, "data", volume+".img"), size); err != nil {
		return err
	}
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer loop.Close()
	return unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_CAPACITY, 0)
}

func mounted(path string) (bool, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	return strings.Contains(string(table), " "+path+" "), err
}

func bind(from, to string) error {
	if is, err := mounted(to); is || err != nil {
		return err
	}
	return unix.Mount(from, to, "", unix.MS_BIND, "")
}

func unmount(path string) error {
	if is, err := mounted(path); !is || err != nil {
		return err
	}
	return unix.Unmount(path, 0)
}

func (d *driver) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	call := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	if v, ok := request.(interface{ GetVolumeId() string }); ok {
		fmt.Println(call, v.GetVolumeId())
	}
	for {
		if _, err := os.Stat(filepath.Join(d.folder, "hang-"+call)); err != nil {
			break
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		time.Sleep(20 * time.Millisecond) // the test takes the file away
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return handle(ctx, request)
}

func listen(path string) net.Listener {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		panic(err)
	}
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	return listener
}

func main() {
	d := &driver{name: os.Args[1], node: os.Args[2], folder: os.Args[3]}
	root := os.Args[4]
	d.socket = filepath.Join(root, "plugins", d.name, "csi.sock")
	server := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterNodeServer(server, d)
	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, d)
	go func() { panic(server.Serve(listen(d.socket))) }()
	panic(registrar.Serve(listen(filepath.Join(root, "plugins_registry", d.name+"-reg.sock"))))
}
