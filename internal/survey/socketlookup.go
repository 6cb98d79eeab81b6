// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"errors"
	"fmt"
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

// judgeLookups: which packets such a program chooses a listener for cannot be read. A translated connection begins with a SYN that it sees.
func (m *Machine) judgeLookups() (found []Finding) {
	for _, id := range m.lookups {
		found = append(found, Finding{SocketLookup, fmt.Sprintf("a BPF program (sk_lookup, program %d) may choose another listener", id), fmt.Sprintf("bpftool prog show id %d", id)})
	}
	return found
}
