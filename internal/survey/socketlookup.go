// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	bpflink "github.com/cilium/ebpf/link"
)

// socketLookups are the BPF programs of type sk_lookup (Linux 5.9) in the calling thread's network namespace. Such a program gives a SYN to a
// listener of its choice, whatever address and port that is bound to. Without CAP_NET_ADMIN none are known.
func socketLookups() ([]ebpf.ProgramID, error) {
	space, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer space.Close()
	found, err := bpflink.QueryPrograms(bpflink.QueryOptions{Target: int(space.Fd()), Attach: ebpf.AttachSkLookup})
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, ebpf.ErrNotSupported) || absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []ebpf.ProgramID
	for _, p := range found.Programs {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	return ids, nil
}

// ChoosesListeners reports whether a BPF program here may give any destination a listener. Which, cannot be read. It does not stand in the
// way of adoption: the packet paths' look-up of a listener asks the program, too.
func (m *Machine) ChoosesListeners() bool { return len(m.lookups) > 0 }
