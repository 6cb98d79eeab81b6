// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	bpflink "github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/survey/surveybpf"
)

// hookProgram is a BPF program at one of netfilter's hooks (Linux 6.4). What it does to packets cannot be read.
type hookProgram struct {
	id     bpflink.ID
	family family
	hook   hook
}

// attachTime is how long another program's link may take to be attached; of XDP, a driver may restart its queues for it.
const attachTime = time.Second

// listPrograms lists BPF programs at the hooks of IP, in all network namespaces. Without CAP_SYS_ADMIN links cannot be listed: then
// none are known.
func listPrograms() (list []hookProgram, err error) {
	links := new(bpflink.Iterator)
	defer func() { links.Close() }()
	for until := time.Now().Add(attachTime); ; time.Sleep(time.Millisecond) {
		for links.Next() {
			if p, err := hookProgramOf(links.Link, links.ID); err != nil {
				return nil, err
			} else if p != nil {
				list = append(list, *p)
			}
		}
		// A link that is being attached has a number, and cannot be opened yet (kernel: bpf_link_by_id). Nothing tells when it can.
		if !errors.Is(links.Err(), unix.EAGAIN) || time.Now().After(until) {
			break
		}
		links = &bpflink.Iterator{ID: links.ID}
	}
	if err := links.Err(); err != nil && !errors.Is(err, fs.ErrPermission) && !absent(err) {
		return nil, err
	}
	return list, nil
}

// hookProgramOf is what a link has at a hook of IP; nil: nothing, or it was removed meanwhile.
func hookProgramOf(l bpflink.Link, id bpflink.ID) (*hookProgram, error) {
	info, err := l.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || info.Type != bpflink.NetfilterType {
		return nil, err
	}
	at := info.Netfilter()
	if at == nil {
		return nil, nil
	}
	h, there := ipHooks[uint32(at.Hook)]
	if !there {
		return nil, nil
	}
	return &hookProgram{id, family(at.ProtocolFamily), h}, nil
}

// onlyHere leaves out the programs of other network namespaces. If the kernel does not say where they are, all count. It takes long
// (a program is loaded), so it is asked only of a list that has changed.
func onlyHere(list []hookProgram) (here []hookProgram) {
	if len(list) == 0 {
		return nil
	}
	where, err := readLinkSpaces()
	if err != nil {
		return list
	}
	own, err := ownSpace()
	if err != nil {
		return list
	}
	for _, p := range list {
		if where[p.id] == own {
			here = append(here, p)
		}
	}
	return here
}

// readLinkSpaces has the kernel list its links of netfilter with the cookie of their network namespace.
func readLinkSpaces() (map[bpflink.ID]uint64, error) {
	var loaded surveybpf.SurveyLinksObjects
	if err := surveybpf.LoadSurveyLinksObjects(&loaded, nil); err != nil {
		return nil, err
	}
	defer loaded.Close()
	l, err := bpflink.AttachIter(bpflink.IterOptions{Program: loaded.TgSurveyLinks})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r, err := l.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	const size = 16 // struct tg_hook_link
	where := map[bpflink.ID]uint64{}
	for ; len(all) >= size; all = all[size:] {
		where[bpflink.ID(binary.NativeEndian.Uint32(all[8:]))] = binary.NativeEndian.Uint64(all)
	}
	return where, nil
}

// ownSpace is the cookie of the calling thread's network namespace.
func ownSpace() (uint64, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(s)
	return unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

// judgePrograms: whatever such a program does to SYNs, it does to those of translated connections, too.
func (m *Machine) judgePrograms(f family) (found []Finding) {
	for _, p := range m.programs {
		if p.family == f {
			found = append(found, Finding{Program, fmt.Sprintf("a BPF program at netfilter's hook %s may tell SYNs from other segments (link %d)", p.hook, p.id),
				fmt.Sprintf("bpftool link show id %d", p.id)})
		}
	}
	return found
}
