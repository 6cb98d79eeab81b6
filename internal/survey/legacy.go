// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Legacy iptables. A table is read only when the kernel lists it: naming one that does not
// exist makes the kernel create it, hooks and all.

// From linux/netfilter_ipv4/ip_tables.h; ip6_tables.h has the same numbers.
const (
	legacyGetInfo    = 64
	legacyGetEntries = 65
	legacyNameLen    = 32
	legacyInfoLen    = legacyNameLen + 4 + 5*4 + 5*4 + 4 + 4
	legacyEntriesAt  = 40 // struct ipt_get_entries: name, size, and what aligns the entries
)

// legacyTable is one table, as the kernel has it.
type legacyTable struct {
	family   family
	name     string
	hooks    uint32    // bit n: the table is at hook n
	entry    [5]uint32 // offset of each hook's first entry
	policyAt [5]uint32 // offset of each hook's policy
	entries  []byte
}

func (f family) legacyNames() string {
	if f == ipv4 {
		return "/proc/thread-self/net/ip_tables_names"
	}
	return "/proc/thread-self/net/ip6_tables_names"
}

// readLegacy reads the tables of a family that are there.
func readLegacy(f family) ([]*legacyTable, error) {
	names, err := os.ReadFile(f.legacyNames())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // this kernel has none
	}
	if err != nil || len(bytes.TrimSpace(names)) == 0 {
		return nil, err
	}
	domain, level := unix.AF_INET, unix.IPPROTO_IP
	if f == ipv6 {
		domain, level = unix.AF_INET6, unix.IPPROTO_IPV6
	}
	s, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // a raw one takes CAP_NET_RAW
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	var tables []*legacyTable
	for _, name := range strings.Fields(string(names)) {
		t, err := readLegacyTable(s, level, name)
		if err != nil {
			return tables, fmt.Errorf("table %s: %w", name, err)
		}
		t.family = f
		if err := t.clearCounters(); err != nil {
			return tables, fmt.Errorf("table %s: %w", name, err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

func readLegacyTable(s, level int, name string) (t *legacyTable, err error) {
	for range attempts { // the size may change between the two calls
		info := make([]byte, legacyInfoLen)
		copy(info, name)
		if err = getsockopt(s, level, legacyGetInfo, info); err != nil {
			return t, err
		}
		word := func(i int) uint32 { return binary.NativeEndian.Uint32(info[legacyNameLen+4*i:]) }
		t = &legacyTable{name: name, hooks: word(0)}
		for i := range t.entry {
			t.entry[i], t.policyAt[i] = word(1+i), word(6+i)
		}
		size := word(12)
		all := make([]byte, legacyEntriesAt+size)
		copy(all, name)
		binary.NativeEndian.PutUint32(all[legacyNameLen:], size)
		if err = getsockopt(s, level, legacyGetEntries, all); err == nil {
			t.entries = all[legacyEntriesAt:]
			return t, nil
		} else if !errors.Is(err, unix.EAGAIN) {
			return t, err
		}
	}
	return t, errChanging
}

var errEntry = errors.New("an entry is cut short")

// Offsets in struct ipt_entry and ip6t_entry, which begin with struct ipt_ip and ip6t_ip6.
type entryLayout struct {
	targetOffset, nextOffset, counters, size int
}

func (f family) entryLayout() entryLayout {
	if f == ipv4 {
		return entryLayout{88, 90, 96, 112}
	}
	return entryLayout{140, 142, 152, 168}
}

// each visits the entries; at is the offset, next that of the following one.
func (t *legacyTable) each(visit func(at, target, next int) error) error {
	l := t.family.entryLayout()
	for at := 0; at < len(t.entries); {
		if at+l.size > len(t.entries) {
			return errEntry
		}
		target := at + int(binary.NativeEndian.Uint16(t.entries[at+l.targetOffset:]))
		next := at + int(binary.NativeEndian.Uint16(t.entries[at+l.nextOffset:]))
		if target < at+l.size || next < target+xtHeaderLen || next > len(t.entries) {
			return errEntry
		}
		if err := visit(at, target, next); err != nil {
			return err
		}
		at = next
	}
	return nil
}

const xtHeaderLen = 32 // struct xt_entry_match and xt_entry_target: size, name, revision

// clearCounters makes tables with the same rules equal.
func (t *legacyTable) clearCounters() error {
	l := t.family.entryLayout()
	return t.each(func(at, _, _ int) error {
		clear(t.entries[at+l.counters : at+l.size])
		return nil
	})
}

func getsockopt(s, level, option int, b []byte) error {
	size := uint32(len(b))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return e
	}
	return nil
}
