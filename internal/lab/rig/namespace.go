// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	nsDir    = "/run/netns"
	nsPrefix = "tg-"
)

// Namespace is a network namespace that this process made.
type Namespace struct {
	Name  string
	fd    netns.NsHandle
	inode uint64
}

// MakeNamespace makes the namespace tg-<pid>-<start>-<role>.
func MakeNamespace(o Owner, role string) (*Namespace, error) {
	n := &Namespace{Name: nsPrefix + o.String() + "-" + role}
	if err := shareNamesOnce(); err != nil {
		return nil, err
	}
	err := onThread(func() error {
		fd, err := netns.NewNamed(n.Name)
		if err != nil {
			_ = os.Remove(filepath.Join(nsDir, n.Name))
			return err
		}
		n.fd = fd
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", n.Name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(n.fd), &st); err != nil {
		return nil, errors.Join(fmt.Errorf("network namespace %s: %w", n.Name, err), n.Close())
	}
	n.inode = st.Ino
	return n, nil
}

// shareNamesOnce makes the directory of names a shared mount of its own, as `ip netns add` does if it is the first to add one: made after
// ours, that mount would hide them, so that nobody could remove them. So it is made before the first, or not at all.
var shareNamesOnce = sync.OnceValue(func() error {
	lock, err := lockNamespaces()
	if err != nil {
		return err
	}
	defer lock.Close()
	share := func() error { return unix.Mount("", nsDir, "none", unix.MS_SHARED|unix.MS_REC, "") }
	err = share()
	if errors.Is(err, unix.EINVAL) { // it is no mount yet
		if there, err := os.ReadDir(nsDir); err != nil || len(there) > 0 {
			return err
		}
		if err = unix.Mount(nsDir, nsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = share()
		}
	}
	if err != nil {
		return fmt.Errorf("make %s a shared mount: %w", nsDir, err)
	}
	return nil
})

// onThread runs f on a thread of its own whose namespace f may change. The
// thread returns to its former namespace; if it cannot, the runtime ends it.
// Children started by f keep their thread (and so their Pdeathsig) alive, since
// the runtime never ends a thread that was unlocked.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer home.Close()
		err = f()
		if back := netns.Set(home); back != nil {
			done <- errors.Join(err, back)
			return // still locked: the runtime ends this thread
		}
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}

// Do runs f on a thread inside the namespace. Only the network namespace
// changes: mounts such as /sys/fs/bpf stay visible.
func (n *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.fd); err != nil {
			return fmt.Errorf("enter %s: %w", n.Name, err)
		}
		return f()
	})
}

// Current reports whether the calling thread is inside this namespace.
func (n *Namespace) Current() bool {
	var st unix.Stat_t
	err := unix.Stat("/proc/thread-self/ns/net", &st)
	return err == nil && st.Ino == n.inode
}

// Close removes the namespace's name and handle; the kernel frees the rest when
// its last process has ended.
func (n *Namespace) Close() error {
	err := removeNamespace(n.Name)
	return errors.Join(err, n.fd.Close())
}

func removeNamespace(name string) error {
	path := filepath.Join(nsDir, name)
	for { // an owner killed between two steps may have left more than one mount
		err := unix.Unmount(path, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	err := os.Remove(path)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: a mount over %s, which was made later, hides it; `umount %s` shows it again", err, nsDir, nsDir)
	}
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// SetSysctls writes sysctls of the namespace; names have dots or slashes.
func (n *Namespace) SetSysctls(pairs ...[2]string) error {
	return n.Do(func() error {
		for _, kv := range pairs {
			path := filepath.Join("/proc/sys", strings.ReplaceAll(kv[0], ".", "/"))
			if err := os.WriteFile(path, []byte(kv[1]), 0); err != nil {
				return fmt.Errorf("sysctl %s=%s in %s: %w", kv[0], kv[1], n.Name, err)
			}
		}
		return nil
	})
}

// CongestionControl sets the namespace's congestion control, unless name is empty, and
// returns the one in force.
func (n *Namespace) CongestionControl(name string) (set string, err error) {
	const sysctl = "net.ipv4.tcp_congestion_control"
	if name != "" {
		if err := n.SetSysctls([2]string{sysctl, name}); err != nil {
			return "", fmt.Errorf("--congestion-control %s: not available in namespaces; use one of the sysctl net.ipv4.tcp_allowed_congestion_control: %w", name, err)
		}
	}
	err = n.Do(func() error {
		b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(sysctl, ".", "/"))
		set = strings.TrimSpace(string(b))
		return err
	})
	return set, err
}
